"""Every row of the papers' tables as a named recipe, and the studies that search them."""

from pipelines.config import Config, ConfigurationError, nearest

from . import amc, dsf, vmf_study
from .study import Study

__all__ = ["RECIPES", "STUDIES", "Study", "recipe", "study"]

RECIPES: dict[str, Config] = vmf_study.recipes() | amc.recipes() | dsf.recipes()
STUDIES: dict[str, Study] = vmf_study.studies()


def recipe(name: str) -> Config:
    """The recipe of that name (underscores count as hyphens). Raises `ConfigurationError` with the nearest names."""
    canonical = name.replace("_", "-")
    if canonical in STUDIES:
        members = ", ".join(STUDIES[canonical].recipes)
        raise ConfigurationError([f"{name} is a study: search it with `tune`, or train one of its recipes: {members}"])
    if canonical not in RECIPES:
        raise ConfigurationError([f"there is no recipe {name!r}{nearest(canonical, list(RECIPES)) or _see_list()}"])
    return RECIPES[canonical]


def study(name: str) -> Study:
    """The study of that name. Raises `ConfigurationError` with the nearest names."""
    canonical = name.replace("_", "-")
    if canonical not in STUDIES:
        raise ConfigurationError([f"there is no study {name!r}{nearest(canonical, list(STUDIES)) or _see_list()}"])
    return STUDIES[canonical]


def _see_list() -> str:
    return "; `hyperspherical recipes` lists all"
