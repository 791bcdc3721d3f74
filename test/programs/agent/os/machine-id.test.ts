import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { linuxMachineId } from '../../../../src/agent/os/machine.ts';

describe('the machine id on Linux', () => {
  it('comes from the first file that has one: without systemd there may be only that of D-Bus', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'muster-machine-id-'));
    const [etc, bus] = [path.join(folder, 'machine-id'), path.join(folder, 'dbus-machine-id')];
    try {
      expect(await linuxMachineId([etc, bus])).to.equal(undefined);
      await writeFile(bus, 'b0b0\n');
      expect(await linuxMachineId([etc, bus])).to.equal('b0b0');
      // As in an image, whose first start makes one.
      await writeFile(etc, '\n');
      expect(await linuxMachineId([etc, bus])).to.equal('b0b0');
      await writeFile(etc, 'e7c0\n');
      expect(await linuxMachineId([etc, bus])).to.equal('e7c0');
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
