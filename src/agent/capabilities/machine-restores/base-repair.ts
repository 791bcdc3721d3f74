import { z } from 'zod';
import { baseNode, baseOf } from '../../os/qemu/guest-command.ts';
import type { GuestDefinition } from '../../os/qemu/guest-definition.ts';
import { withMonitor } from '../../os/qemu/guest-process.ts';
import { type QmpClient, QmpRefusal } from '../../os/qemu/qmp-client.ts';
import { stateOf } from '../../os/qemu/guest-state.ts';

const GENERATIONS_MAX = 100;

/**
 * Gives a running machine its base again, after the mount has died and was made again: what it has open is dead for ever.
 * Then the machine goes on where its disk has failed.
 */
export async function reopenBases(guest: GuestDefinition): Promise<void> {
  await withMonitor(guest, async (monitor) => {
    for (const [index, { base }] of guest.disks.entries()) {
      if (base === undefined) continue;
      const { file, ...node } = baseNode(base, index);
      const opened = z.record(z.string(), z.unknown()).parse(file);
      const name = await addFresh(monitor, opened, (generation) => `${baseOf(index)}-${generation}`);
      await monitor.execute('blockdev-reopen', { options: [{ ...node, file: name }] });
    }
    if ((await stateOf(monitor)) !== 'running') await monitor.execute('cont');
  });
}

/**
 * Opens the file under a name that is not in use, The names are tried, because to list the
 * nodes ends qemu 7.2 while a disk is being copied.
 */
async function addFresh(
  monitor: QmpClient,
  opened: Record<string, unknown>,
  nameOf: (generation: number) => string,
): Promise<string> {
  for (let generation = 1; ; generation += 1) {
    const name = nameOf(generation);
    try {
      await monitor.execute('blockdev-add', { ...opened, 'node-name': name });
      return name;
    } catch (error) {
      if (!(error instanceof QmpRefusal) || generation >= GENERATIONS_MAX) throw error;
    }
  }
}
