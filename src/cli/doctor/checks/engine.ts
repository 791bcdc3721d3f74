import type { Config } from '../../../config.ts';
import { EngineError, probeEngine } from '../../../engine/index.ts';
import { type Check, ok, warning } from '../check.ts';

/** restic on this machine, which verifies, prunes and restores; devices bring their own. */
export const engineCheck = ({ backupStore: { enginePath } }: Pick<Config, 'backupStore'>): Check => ({
  name: 'engine',
  async run() {
    try {
      const { path, version } = await probeEngine({ searchPath: enginePath });
      return ok(`restic ${Object.values(version).join('.')} is at ${path}.`);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      return warning(
        error.message,
        'Install restic on this machine, or name its folder in BACKUP_ENGINE_PATH: without it, backups are not pruned and not verified.',
      );
    }
  },
});
