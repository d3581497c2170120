"""Software pipelining of loads through shared memory."""
