"""The worker: replica, shard, loop, and the trainer process that outlives Spark tasks."""
