"""Flask-Limiter counts requests over several web servers, each at a member of its own."""
from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from patience import PORTS


def server(port, strategy):
    app = Flask(f"at{port}")
    limiter = Limiter(
        get_remote_address,
        app=app,
        storage_uri=f"redis://127.0.0.1:{port}",
        strategy=strategy,
        in_memory_fallback_enabled=False,
        swallow_errors=False,
    )

    @app.route("/")
    @limiter.limit("5 per hour", key_func=lambda: strategy)
    def page():
        return "page"

    return app.test_client()


for strategy in ["fixed-window", "sliding-window-counter"]:
    servers = [server(port, strategy) for port in PORTS]
    codes = [servers[n % len(servers)].get("/").status_code for n in range(9)]
    assert codes == [200] * 5 + [429] * 4, (strategy, codes)
print("well", flush=True)
