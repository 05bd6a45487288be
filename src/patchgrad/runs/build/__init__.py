"""Words become objects: the only place where a part of a recipe is made into what does it."""
