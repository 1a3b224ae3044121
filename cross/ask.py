"""An application with IBM's unmodified SDK: evaluates a flag of the demo seed and says its value.

Its key comes in KEY; it finds the relay by HTTPS_PROXY and trusts it by REQUESTS_CA_BUNDLE.
"""

import os
from ibm_appconfiguration import AppConfiguration

client = AppConfiguration.get_instance()
client.init(region="us-south", guid="11111111-2222-3333-4444-555555555555",
            apikey=os.environ["KEY"])
client.set_context(collection_id="payments", environment_id="prod")
print("fast-checkout:", client.get_feature("fast-checkout").get_current_value("line-3"))
