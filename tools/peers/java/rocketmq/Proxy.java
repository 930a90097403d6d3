import javassist.ClassPool;
import javassist.CtClass;
import javassist.CtConstructor;
import javassist.LoaderClassPath;

/**
 * Proxy MAIN ARGUMENTS...: as Loopback does, and for the one listener of a Proxy that asks for 0.0.0.0 by name and has no
 * setting: its configuration is another one as soon as it is made.
 */
public final class Proxy {
    private static final String LISTENER = "org.apache.rocketmq.remoting.netty.NettyServerConfig";

    public static void main(String[] args) throws Exception {
        ClassPool classes = new ClassPool();
        classes.appendClassPath(new LoaderClassPath(Proxy.class.getClassLoader()));
        CtClass listener = classes.get(LISTENER);
        for (CtConstructor made : listener.getConstructors()) {
            made.insertAfter("this.bindAddress = \"127.0.0.1\";");
        }
        listener.toClass(Proxy.class.getClassLoader(), Proxy.class.getProtectionDomain());
        Loopback.main(args);
    }
}
