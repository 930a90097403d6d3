import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** What every driver is told, --key value, and an orderly end: a signal waits until the driver has said that it is done. */
class Options {
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static volatile boolean ending;

    final Map<String, String> options = new LinkedHashMap<>();

    Options(String[] args) {
        for (int i = 0; i < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            try {
                DONE.await(20, TimeUnit.SECONDS);
            } catch (InterruptedException gaveUp) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    /** False once somebody asked for the end. */
    static boolean wanted() {
        return !ending;
    }

    /** End at once where standard input does: whoever started this program is gone, or wants it gone. */
    static void endWithInput() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException gone) {
                // As good as its end.
            }
            Runtime.getRuntime().halt(3);
        });
        watch.setDaemon(true);
        watch.start();
    }

    /** End, also when it was not a signal that asked for it. */
    static void done() {
        DONE.countDown();
        System.exit(0);
    }

    String text(String key, String otherwise) {
        return options.getOrDefault(key, otherwise);
    }

    long number(String key, long otherwise) {
        return Long.parseLong(text(key, "" + otherwise));
    }

    boolean told(String key) {
        return text(key, "no").equals("yes");
    }

    List<String> list(String key) {
        String text = options.getOrDefault(key, "");
        return text.isEmpty() ? new ArrayList<>() : List.of(text.split(","));
    }

    /** What a line says, by names and values that take turns. */
    static Map<String, Object> row(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        return row;
    }
}
