"""How right the answers of young windows were."""
