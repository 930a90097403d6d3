import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.InetAddress;
import java.util.Arrays;
import org.apache.inlong.tubemq.server.common.statusdef.StepStatus;

/**
 * Node MAIN ARGUMENTS...: the server's own main class, changed in two ways that it has no setting for.
 *
 * -Dpeer.bind=127.0.0.1: what it would offer on every network interface it offers on this address only. Java asks one
 * object for the wildcard address; it gets another answer. (Needs --add-opens=java.base/java.net=ALL-UNNAMED.)
 *
 * -Dpeer.stepMs=0: the master lets a starting broker wait 30 s before it may be read and 5 s more before it may be
 * written; these two constants become the given number.
 */
public final class Node {
    public static void main(String[] args) throws Exception {
        bindTo(InetAddress.getByName(System.getProperty("peer.bind", "127.0.0.1")));
        Long step = Long.getLong("peer.stepMs");
        if (step != null) {
            shorten(step);
        }
        Class<?> server = Class.forName(args[0]);
        server.getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    private static void bindTo(InetAddress address) throws ReflectiveOperationException {
        Field chosen = InetAddress.class.getDeclaredField("impl");
        chosen.setAccessible(true);
        Object implementation = chosen.get(null);
        Field wildcard = implementation.getClass().getDeclaredField("anyLocalAddress");
        wildcard.setAccessible(true);
        wildcard.set(implementation, address);
        if (!new java.net.InetSocketAddress(0).getAddress().equals(address)) {
            throw new IllegalStateException("this Java would listen on every network interface");
        }
    }

    private static void shorten(long limit) throws ReflectiveOperationException {
        for (StepStatus step : StepStatus.values()) {
            for (Field field : StepStatus.class.getDeclaredFields()) {
                if (field.getType() == long.class && !Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    field.setLong(step, Math.min(limit, field.getLong(step)));
                }
            }
        }
    }
}
