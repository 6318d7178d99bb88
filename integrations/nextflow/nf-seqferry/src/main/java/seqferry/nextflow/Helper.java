package seqferry.nextflow;

import groovy.json.JsonOutput;
import groovy.json.JsonSlurper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.InterruptedIOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process {@code seqferry nextflow helper}: requests as lines of JSON, many under way at once.
 *
 * <p>It ends with its standard input, so it never outlives Nextflow. When it ends before, each open request fails with the
 * last lines that it wrote to its log, and the next request starts another one.
 */
final class Helper implements AutoCloseable {

    /** Of {@code seqferry.nextflow.helper}: both sides must mean the same. */
    private static final int PROTOCOL = 1;

    private static final int KEPT_LINES = 5;
    private static final int END_SECONDS = 10;

    /** By a name of Nextflow's own, whose debug lines go into its log file. */
    private static final Logger log = LoggerFactory.getLogger("nextflow.seqferry");

    /** A request under way: what has come of its answer. */
    private static final class Open {
        final List<Object> entries = new ArrayList<>();
        final CompletableFuture<Map<?, ?>> end = new CompletableFuture<>();
    }

    private final Process process;
    private final Writer requests;
    private final Map<Integer, Open> open = new ConcurrentHashMap<>();
    private final AtomicInteger next = new AtomicInteger();
    private final Deque<String> said = new ArrayDeque<>();
    private volatile String ended;

    private Helper(Process process) {
        this.process = process;
        this.requests = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
    }

    static Helper start(Settings settings) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(settings.command(), "nextflow", "helper");
        builder.environment().putAll(settings.environment());
        Process process;
        try {
            process = builder.start();
        } catch (IOException why) {
            throw new IOException("nf-seqferry cannot start '" + settings.command() + "': " + why.getMessage()
                    + ". Install Seqferry, or name its command in nextflow.config: seqferry.command = '/path/to/seqferry'");
        }
        Helper helper = new Helper(process);
        helper.begin(helper::readLog, "seqferry-log");
        BufferedReader answers = process.inputReader(StandardCharsets.UTF_8);
        helper.greet(answers.readLine());
        helper.begin(() -> helper.readAnswers(answers), "seqferry-answers");
        return helper;
    }

    boolean hasEnded() {
        return ended != null || !process.isAlive();
    }

    /** A request's answer; entries of a listing are in {@code entries}. */
    Map<?, ?> call(String operation, Map<String, Object> facts, List<Object> entries) throws IOException {
        int id = next.incrementAndGet();
        Open request = new Open();
        open.put(id, request);
        Map<String, Object> line = new LinkedHashMap<>(facts);
        line.put("id", id);
        line.put("op", operation);
        send(id, JsonOutput.toJson(line));
        if (ended != null && open.remove(id) != null) {
            throw new IOException(ended);
        }
        Map<?, ?> answer = await(request);
        if (entries != null) {
            entries.addAll(request.entries);
        }
        if (answer.get("error") instanceof Map<?, ?> error) {
            throw failure(error, facts);
        }
        return answer;
    }

    @Override
    public void close() {
        try {
            requests.close();
            if (!process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (IOException why) {
            process.destroy();
        } catch (InterruptedException why) {
            process.destroy();
            Thread.currentThread().interrupt();
        }
    }

    private void begin(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void greet(String line) throws IOException {
        Object found = null;
        try {
            found = line == null ? null : new JsonSlurper().parseText(line);
        } catch (RuntimeException why) {
            log.debug("seqferry helper began with {}", line);
        }
        if (!(found instanceof Map<?, ?> hello)) {
            end();
            throw new IOException(ended);
        }
        if (!Integer.valueOf(PROTOCOL).equals(hello.get("protocol"))) {
            close();
            throw new IOException("nf-seqferry and seqferry " + hello.get("version")
                    + " do not understand each other; install the plugin of the same version");
        }
        log.debug("seqferry {} helps", hello.get("version"));
    }

    private void send(int id, String line) throws IOException {
        try {
            synchronized (requests) {
                requests.write(line);
                requests.write('\n');
                requests.flush();
            }
        } catch (IOException why) {
            open.remove(id);
            throw new IOException(ended != null ? ended : "The seqferry helper takes no more requests", why);
        }
    }

    private static Map<?, ?> await(Open request) throws IOException {
        try {
            return request.end.get();
        } catch (ExecutionException why) {
            throw new IOException(why.getCause().getMessage());
        } catch (InterruptedException why) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("Interrupted while Seqferry was at work");
        }
    }

    private void readAnswers(BufferedReader answers) {
        JsonSlurper json = new JsonSlurper();
        try {
            for (String line; (line = answers.readLine()) != null; ) {
                take((Map<?, ?>) json.parseText(line));
            }
        } catch (IOException | RuntimeException why) {
            log.debug("seqferry helper: answers end", why);
        }
        end();
    }

    private void take(Map<?, ?> answer) {
        Object id = answer.get("id");
        Open request = id instanceof Integer number ? open.get(number) : null;
        if (request == null) {
            log.debug("seqferry helper: no request for {}", answer);
            return;
        }
        if (answer.get("entries") instanceof List<?> page) {
            request.entries.addAll(page);
        }
        if (Boolean.TRUE.equals(answer.get("end"))) {
            open.remove((Integer) id);
            request.end.complete(answer);
        }
    }

    private void readLog() {
        try (BufferedReader lines = process.errorReader(StandardCharsets.UTF_8)) {
            for (String line; (line = lines.readLine()) != null; ) {
                if (line.startsWith("WARNING") || line.startsWith("ERROR")) {
                    log.warn("seqferry: {}", line);
                } else {
                    log.debug("seqferry: {}", line);
                }
                synchronized (said) {
                    said.addLast(line);
                    if (said.size() > KEPT_LINES) {
                        said.removeFirst();
                    }
                }
            }
        } catch (IOException why) {
            log.debug("seqferry helper: log ends", why);
        }
    }

    private void end() {
        String last;
        try {
            boolean over = process.waitFor(END_SECONDS, TimeUnit.SECONDS);
            last = over ? "exit code " + process.exitValue() : "its answers ended";
        } catch (InterruptedException why) {
            last = "its answers ended";
        }
        synchronized (said) {
            ended = "The seqferry helper ended (" + last + ")" + (said.isEmpty() ? "" : ": " + String.join(" ", said));
        }
        open.values().forEach(request -> request.end.completeExceptionally(new IOException(ended)));
        open.clear();
    }

    private static IOException failure(Map<?, ?> error, Map<String, Object> facts) {
        String what = String.valueOf(facts.getOrDefault("source", facts.get("uri")));
        String message = String.valueOf(error.get("message"));
        return switch (String.valueOf(error.get("kind"))) {
            case "missing" -> new NoSuchFileException(what, null, message);
            case "exists" -> new FileAlreadyExistsException(String.valueOf(facts.get("target")), null, message);
            case "denied" -> new AccessDeniedException(what, null, message);
            default -> new IOException(message);
        };
    }
}
