import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import org.apache.inlong.tubemq.server.common.statusdef.StepStatus;

/**
 * Node MAIN ARGUMENTS...: the server's own main class, changed in two ways that it has no setting for: as Loopback does,
 * and by
 *
 * -Dpeer.stepMs=0: the master lets a starting broker wait 30 s before it may be read and 5 s more before it may be
 * written; these two constants become the given number.
 */
public final class Node {
    public static void main(String[] args) throws Exception {
        Long step = Long.getLong("peer.stepMs");
        if (step != null) {
            shorten(step);
        }
        Loopback.main(args);
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
