package seqferry.nextflow;

import nextflow.file.FileHelper;
import nextflow.plugin.BasePlugin;
import org.pf4j.PluginWrapper;

/**
 * The plugin {@code nf-seqferry}: paths {@code s3://bucket/key} whose bytes go through the {@code seqferry} engine.
 *
 * <p>It installs the provider when it starts, so that paths which are read back from the cache of a run find it, and ends
 * the helper process when it stops.
 */
public class SeqferryPlugin extends BasePlugin {

    public SeqferryPlugin(PluginWrapper wrapper) {
        super(wrapper);
    }

    @Override
    public void start() {
        super.start();
        FileHelper.getOrInstallProvider(SeqferryFileSystemProvider.class);
    }

    @Override
    public void stop() {
        SeqferryFileSystem.end();
        super.stop();
    }
}
