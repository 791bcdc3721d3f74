import { EngineError } from '../../../engine/index.ts';
import type { BackupResult } from '../../../protocol/index.ts';
import { firstCharacters } from '../../core/plain-text.ts';

type ShadowCopies = NonNullable<BackupResult['shadowCopies']>;

interface FileBackup {
  volumesInUse: readonly { path: string; reason: string }[];
}

const PROBLEMS_MAX = 50;
const VOLUME_MAX = 1000;
const MESSAGE_MAX = 500;

/**
 * Makes a backup from shadow copies where this machine has them. A volume without one is read as it is, and so is
 * everything where Windows refuses them all: an old backup helps less than one without the files that are in use.
 */
export async function withShadowCopies<T extends FileBackup>(
  hasShadowCopies: boolean,
  backup: (shadowCopies: boolean) => Promise<T>,
): Promise<{ made: T; shadowCopies: ShadowCopies | undefined }> {
  if (!hasShadowCopies) return { made: await backup(false), shadowCopies: undefined };
  try {
    const made = await backup(true);
    const problems = made.volumesInUse.map(({ path, reason }) => problem(path, reason));
    return {
      made,
      shadowCopies: {
        used: true,
        problems: problems.slice(0, PROBLEMS_MAX),
        ...(problems.length > PROBLEMS_MAX ? { isCut: true } : {}),
      },
    };
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'SHADOW_COPY_DENIED') throw error;
    const made = await backup(false);
    return { made, shadowCopies: { used: false, problems: [problem('', ofWindows(error))] } };
  }
}

/** Only this line of what restic has printed: others may hold addresses. */
const ofWindows = ({ detail = '', message }: EngineError) =>
  detail.split('\n').find((line) => line.includes('VSS error: ')) ?? message;

const problem = (volume: string, message: string) => ({
  volume: firstCharacters(volume, VOLUME_MAX),
  message: firstCharacters(message === '' ? 'restic has not said why.' : message, MESSAGE_MAX),
});
