"""What joins dibs to other packages: a module for each, which needs that package and says so if it is not there."""
