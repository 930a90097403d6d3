import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Arrays;

/**
 * Loopback MAIN ARGUMENTS...: a server's own main class, which offers on one address what it would offer on every network
 * interface: 127.0.0.1, or that of -Dpeer.bind. Java asks one object for the wildcard address; it gets another answer.
 * (Needs --add-opens=java.base/java.net=ALL-UNNAMED.)
 */
public final class Loopback {
    public static void main(String[] args) throws Exception {
        bind();
        Class<?> server = Class.forName(args[0]);
        server.getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    private static void bind() throws ReflectiveOperationException, UnknownHostException {
        InetAddress address = InetAddress.getByName(System.getProperty("peer.bind", "127.0.0.1"));
        Field chosen = InetAddress.class.getDeclaredField("impl");
        chosen.setAccessible(true);
        Object implementation = chosen.get(null);
        Field wildcard = implementation.getClass().getDeclaredField("anyLocalAddress");
        wildcard.setAccessible(true);
        wildcard.set(implementation, address);
        if (!new InetSocketAddress(0).getAddress().equals(address)) {
            throw new IllegalStateException("this Java would listen on every network interface");
        }
    }
}
