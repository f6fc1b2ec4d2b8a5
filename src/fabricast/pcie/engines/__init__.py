"""Link sharing with copy engines: rates and completion times of copy programs."""
