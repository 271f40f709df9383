"""What the 19 corruptions are made of: constants, parts, and where clean and released images come from."""
