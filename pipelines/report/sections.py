"""The sections about the trials of a search, each around one figure."""

from pipelines.analysis import Table, read_lines
from pipelines.analysis.folders import field_value
from pipelines.analysis.tables import percent

from .figures import accuracy_floor, fates, hyperparameters, learning_curves
from .folder import Sweep
from .outputs import class_names, reliability, reliability_caption, sphere_caption, spheres
from .page import figure, missing, section, table


def curves(sweep: Sweep) -> str:
    floor = accuracy_floor(sweep.frame)
    images = f" ({sweep.plan['validation_images']:,} images)" if sweep.plan.get("validation_images") else ""
    below = int((sweep.frame["accuracy"] < floor).sum())
    caption = (
        f"Accuracy on the validation split{images} after every epoch, {sweep.trials_that_ran} trials. Thick: the best "
        "finished trial of the objective. Dashed: the published row. Lines end where a trial ended: in a small dot "
        "where ASHA stopped it, in a larger one where it finished, in a cross where it diverged."
    )
    caption += f" {below} trials lie below the axes." if below else ""
    source = learning_curves(sweep.frames, sweep.best, sweep.colours, floor)
    return section(
        "Learning curves",
        figure(source, "Validation accuracy per epoch of all trials, one panel per objective", caption),
    )


def accuracy_by_value(sweep: Sweep) -> str:
    headings = {field: heading for heading, field in sweep.plan["columns"].items()}
    fields = {
        headings.get(field, field): field
        for field, values in sweep.plan["grid"].items()
        if len(values) > 1 and sweep.frame[field].notna().any()
    }
    title = "Accuracy against each hyperparameter"
    if not fields:
        return section(title, missing("The grid varies nothing, so there is nothing to compare."))
    published = {
        name: {field: field_value(sweep.plan["published"][recipe], field) for field in fields.values()}
        for recipe, name in sweep.labels.items()
    }
    caption = (
        f"Best validation accuracy of each of {sweep.trials_that_ran} trials. Filled: finished. Hollow: stopped by "
        "ASHA or not over, so after fewer epochs. Cross: diverged. Triangle: below the axis. The line is the best "
        "trial with that value; brackets mark the published value."
    )
    source = hyperparameters(sweep.frames, fields, published, sweep.colours, accuracy_floor(sweep.frame))
    alt = f"Validation accuracy against {', '.join(fields)}, one column of panels per objective"
    return section(title, figure(source, alt, caption))


def halving(sweep: Sweep) -> str:
    """Which trials ASHA stopped, and at which rung."""
    plan = sweep.plan
    decisions = [line for line in read_lines(sweep.path / "decisions.jsonl") if line["epoch"] < plan["epochs"]]
    rungs = [rung for rung in plan["rungs"] if rung < plan["epochs"]]
    rows = []
    for recipe, name in sweep.labels.items():
        cells = [name]
        for rung in rungs:
            visits = [line for line in decisions if line["recipe"] == recipe and line["epoch"] == rung]
            cutoff = next((line["cutoff"] for line in reversed(visits) if line["cutoff"] is not None), None)
            stopped = sum(line["stopped"] for line in visits)
            cells += [f"{stopped} of {len(visits)}", percent(cutoff)]
        rows.append(cells)
    headings = [f"epoch {rung}: {what}" for rung in rungs for what in ("stopped", "last cutoff %")]
    caption = (
        f"One bar per trial, {len(sweep.frame)} in all, as long as the epochs it ran. At each rung (dotted) ASHA "
        f"stopped a trial that was below the best 1/{plan['reduction_factor']} of its objective's trials seen there "
        "before it."
    )
    source = fates(sweep.frames, plan["rungs"], sweep.colours)
    return section(
        "What ASHA stopped, and when",
        figure(source, "Epochs that each trial ran, coloured by what became of it", caption),
        table(Table(["objective", *headings], rows), sweep.colours)
        if decisions
        else missing("No trial has reached a rung that decides yet.", sweep.resume_command),
    )


def embeddings(sweep: Sweep) -> str:
    title = "Embeddings on the sphere"
    if not sweep.outputs:
        return section(title, missing("No best trial has been evaluated on the test split yet.", sweep.resume_command))
    drawn = {name: outputs for name, outputs in sweep.outputs.items() if outputs.on_the_sphere}
    if not drawn:
        return section(title, missing("The embeddings have more than three dimensions, so they are not drawn."))
    names = class_names(sweep.plan["base"][sweep.plan["recipes"][0]]["data"])
    source = spheres(drawn, sweep.colours, names)
    alt = "Test embeddings on the unit sphere, coloured by class, seen from two opposite sides"
    return section(title, figure(source, alt, sphere_caption(drawn)))


def calibration(sweep: Sweep) -> str:
    title = "Reliability"
    if not sweep.outputs:
        return section(title, missing("No best trial has been evaluated on the test split yet.", sweep.resume_command))
    source = reliability(sweep.outputs, sweep.colours)
    alt = "Accuracy against confidence on test images, one panel per objective"
    return section(title, figure(source, alt, reliability_caption(sweep.outputs)))
