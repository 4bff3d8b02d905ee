"""How the clients talk to a server: requests and answers, retries and pace; nothing here waits."""
