package seqferry.nextflow;

import java.util.HashMap;
import java.util.Map;
import nextflow.Global;

/**
 * How the helper is started: its command, and the variables of its endpoint and identity.
 *
 * @param environment on top of that of Nextflow. May hold a secret: never printed.
 */
record Settings(String command, Map<String, String> environment) {

    /** From the blocks {@code seqferry} and {@code aws} of the configuration; what they leave open is of the environment. */
    static Settings ofNextflow() {
        Map<?, ?> config = Global.getConfig() == null ? Map.of() : Global.getConfig();
        Map<?, ?> own = block(config, "seqferry");
        Map<?, ?> aws = block(config, "aws");
        Map<?, ?> client = block(aws, "client");
        Map<String, String> environment = new HashMap<>();
        put(environment, "AWS_ACCESS_KEY_ID", aws.get("accessKey"));
        put(environment, "AWS_SECRET_ACCESS_KEY", aws.get("secretKey"));
        put(environment, "AWS_SESSION_TOKEN", aws.get("sessionToken"));
        put(environment, "AWS_PROFILE", aws.get("profile"));
        put(environment, "AWS_REGION", aws.get("region"));
        put(environment, "AWS_ENDPOINT_URL_S3", client.get("endpoint"));
        put(environment, "SEQFERRY_STATE_DIR", own.get("stateDir"));
        put(environment, "SEQFERRY_MAX_BANDWIDTH", own.get("maxBandwidth"));
        put(environment, "SEQFERRY_MEMORY", own.get("memory"));
        Object command = own.get("command");
        if (command == null) {
            command = System.getenv("SEQFERRY_COMMAND");
        }
        return new Settings(command == null ? "seqferry" : command.toString(), environment);
    }

    private static Map<?, ?> block(Map<?, ?> config, String name) {
        return config.get(name) instanceof Map<?, ?> found ? found : Map.of();
    }

    private static void put(Map<String, String> environment, String name, Object value) {
        if (value != null && !value.toString().isEmpty()) {
            environment.put(name, value.toString());
        }
    }

    @Override
    public String toString() {
        return "Settings[" + command + "]";
    }
}
