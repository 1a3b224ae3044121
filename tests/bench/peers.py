"""What else hands one message to many: brokers of Debian's, each set up at its best.

Each is one process on one CPU, like the relay, and gets the document whole with every change. Both
keep nothing on disk, log nothing by client, and refuse nobody.
"""

import http.client
from rig import NCHAN_MODULE, fail, free_port, require

NCHAN = """
daemon off;
load_module {module};
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr notice;
worker_rlimit_nofile {connections};
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  client_body_buffer_size 64k;
  client_max_body_size 4m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = /publish {{
      nchan_publisher http; nchan_channel_id bench; nchan_message_buffer_length 1;
    }}
    location = /subscribe {{ nchan_subscriber eventsource; nchan_channel_id bench; }}
  }}
}}
"""

MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous true
max_connections -1
set_tcp_nodelay true
persistence false
log_type notice
log_type information
log_dest stderr
connection_messages false
"""


class Nchan:
    """nginx with nchan: a channel that keeps its newest message, for event streams."""

    kind = "sse"
    arguments = ["--path", "/subscribe", "--publish", "/publish"]

    def __init__(self, rig, label, document, connections):
        require("nginx", "nchan")
        folder = rig.folder / label
        folder.mkdir()
        self.port = free_port()
        config = folder / "nginx.conf"
        config.write_text(NCHAN.format(folder=folder, port=self.port, module=NCHAN_MODULE,
                                       connections=connections))
        self.program = rig.start(label, ["nginx", "-p", folder, "-e", "stderr", "-c", config])
        self.program.wait_for("start worker process ")
        # As from the relay, the first event of a stream is the document that there is.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("POST", "/publish", document, {"X-EventSource-Event": "Registration"})
        status = connection.getresponse().status
        connection.close()
        if status not in (201, 202):
            fail(f"nchan answers {status} to what is published")


class Mosquitto:
    """The MQTT broker: a topic whose subscribers have QoS 0, the cheapest that MQTT has."""

    kind = "mqtt"
    arguments = ["--path", "bench", "--publish", "bench"]

    def __init__(self, rig, label, _document, _connections):
        require("mosquitto")
        self.port = free_port()
        config = rig.folder / f"{label}.conf"
        config.write_text(MOSQUITTO.format(port=self.port))
        self.program = rig.start(label, ["mosquitto", "-c", config])
        self.program.wait_for("running")


BROKERS = {"nchan": Nchan, "mosquitto": Mosquitto}
