"""What every package needs of Spark: jobs, task slots, errors, the engine on executors."""
