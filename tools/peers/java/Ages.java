import java.nio.charset.StandardCharsets;

/** How long ago records were sent: each begins with its time, the digits of the clock that Python calls monotonic. */
final class Ages {
    private static final int STAMP = 20;

    private Ages() {
    }

    /** What a record that is sent now begins with. */
    static byte[] stamp() {
        return String.format("%0" + STAMP + "d", System.nanoTime()).getBytes(StandardCharsets.US_ASCII);
    }

    /** How long ago it was sent, ns. */
    static long age(byte[] value) {
        long sent = 0;
        for (int i = 0; i < STAMP; i++) {
            sent = sent * 10 + value[i] - '0';
        }
        long age = System.nanoTime() - sent;
        if (age < 0) {
            throw new IllegalStateException("read before it was sent: these clocks differ");
        }
        return age;
    }

    /** Below that a part of them lies, ms. */
    static double share(long[] sorted, double part) {
        return sorted[Math.min(sorted.length - 1, (int) (sorted.length * part))] / 1e6;
    }
}
