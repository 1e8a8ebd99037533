"""The intermediate representation: types, instructions, their rules, and what every other room may import."""
