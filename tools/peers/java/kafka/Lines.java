import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;

/** One JSON object a line. */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;

    private Lines() {
    }

    /** Names and values that take turns. */
    static void line(Object... pairs) {
        try {
            String text = JSON.writeValueAsString(Options.row(pairs));
            synchronized (OUT) {
                OUT.println(text);
                OUT.flush();
            }
        } catch (java.io.IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
