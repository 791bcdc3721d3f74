import { expect } from 'chai';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { probeAccelerator } from '../../../../../src/agent/os/qemu/guest-definition.ts';

describe('the accelerator of virtual machines', () => {
  let folder: string;
  let device: string;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-accelerator-'));
    device = path.join(folder, 'kvm');
    await writeFile(device, '');
  });
  after(async () => rm(folder, { recursive: true, force: true }));

  /** A qemu that does what is asked for each accelerator. 33 is the code of a machine that has run. */
  async function qemu({ kvm, tcg }: { kvm: string; tcg: string }): Promise<string> {
    const file = path.join(folder, 'qemu');
    await writeFile(file, `#!/bin/sh\ncase "$*" in *"-accel kvm"*) ${kvm};; *) ${tcg};; esac\n`);
    await chmod(file, 0o755);
    return file;
  }

  it('is used if a machine runs with it', async () => {
    expect(await probeAccelerator(await qemu({ kvm: 'exit 33', tcg: 'exit 33' }), device)).to.equal('kvm');
    const busy = await qemu({ kvm: 'sleep 1; exit 33', tcg: 'sleep 0.3; exit 33' });
    expect(await probeAccelerator(busy, device)).to.equal('kvm');
    const cannotEmulate = await qemu({ kvm: 'sleep 1.5; exit 33', tcg: 'exit 1' });
    expect(await probeAccelerator(cannotEmulate, device)).to.equal('kvm');
  });

  it('is not used if it is missing, does not run, or is far slower than emulation', async () => {
    const works = await qemu({ kvm: 'exit 33', tcg: 'exit 33' });
    expect(await probeAccelerator(works, path.join(folder, 'nothing'))).to.equal('tcg');
    expect(await probeAccelerator(await qemu({ kvm: 'exit 1', tcg: 'exit 33' }), device)).to.equal('tcg');
    const crawls = await qemu({ kvm: 'exec sleep 20', tcg: 'exit 33' });
    expect(await probeAccelerator(crawls, device)).to.equal('tcg');
  });
});
