import { symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { machineSources } from '../../../../../src/agent/os/machine-sources.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';

describe('the programs that an inventory is read from', () => {
  it('are none of busybox, whose rpm knows no list of packages', async () => {
    const { folder, remove } = await temporaryFolder();
    const searchPath = process.env['PATH'];
    try {
      await writeFile(path.join(folder, 'busybox'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
      await symlink('busybox', path.join(folder, 'rpm'));
      process.env['PATH'] = folder;
      expect(await machineSources().output('rpm', ['-qa'])).to.equal(undefined);
    } finally {
      process.env['PATH'] = searchPath;
      await remove();
    }
  });
});
