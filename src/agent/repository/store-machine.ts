import { clock } from '../../clock.ts';
import {
  backupStream,
  imageDetailsOf,
  layoutOf,
  MACHINE_FILE,
  type MachineDescription,
  writeMachine,
} from '../../engine/index.ts';
import type { BackupResult } from '../../protocol/index.ts';
import type { Progress } from '../work/handler.ts';
import { type RepositoryWork, destinationRoom, jobTag, processorsFor, resultOf } from './repository-work.ts';

/** Makes one snapshot of the disks of a machine, in the form of docs/decisions/machine-images.md. */

interface Order {
  jobId: string;
  host: string;
  uploadKiBps?: number | undefined;
  cpuPercent?: number | undefined;
}

interface Stored {
  machine: MachineDescription;
  contentOf: (disk: { name: string; sizeBytes: number }) => AsyncIterable<Uint8Array>;
  /** Rejects if the content that was read is invalid, which undoes the backup. */
  confirm: () => Promise<void>;
  onProgress: (progress: Progress) => void;
}

export async function storeMachine(
  { engine, repository, options }: RepositoryWork,
  { jobId, host, uploadKiBps, cpuPercent }: Order,
  { machine, contentOf, confirm, onProgress }: Stored,
): Promise<BackupResult> {
  const layout = layoutOf(machine);
  const made = await backupStream(
    engine,
    repository,
    { fileName: MACHINE_FILE, host, tags: [jobTag(jobId)] },
    {
      content: counted(writeMachine(machine, contentOf), layout.sizeBytes, onProgress),
      expectedBytes: layout.sizeBytes,
      confirm,
    },
    { ...options, uploadKiBps, processors: processorsFor(cpuPercent) },
  );
  return {
    ...resultOf(made, machine.takenAt),
    ...(await destinationRoom(repository)),
    details: imageDetailsOf(machine, layout.disks),
  };
}

async function* counted(
  bytes: AsyncIterable<Uint8Array>,
  total: number,
  progress: (progress: Progress) => void,
): AsyncGenerator<Uint8Array, void> {
  const startedAt = clock.monotonic();
  let done = 0;
  for await (const piece of bytes) {
    yield piece;
    done += piece.byteLength;
    const seconds = (clock.monotonic() - startedAt) / 1000;
    const rate = seconds < 1 ? undefined : Math.round(done / seconds);
    progress({
      phase: done === total ? 'finishing' : 'reading',
      done,
      total,
      percent: Math.floor((1000 * done) / total) / 10,
      ...(rate === undefined || rate === 0 ? {} : { rate, etaSeconds: Math.ceil((total - done) / rate) }),
    });
  }
}
