import { writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { osVersion } from '../../../../src/agent/os/machine.ts';
import { temporaryFolder } from '../../../support/agent/collect.ts';

describe('agent: the version of the operating system', () => {
  it('is that of the distribution on Linux, and of the system itself elsewhere', async () => {
    const { folder, remove } = await temporaryFolder();
    try {
      const file = path.join(folder, 'os-release');
      await writeFile(file, 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n');
      expect(await osVersion('linux', file)).to.equal('Debian GNU/Linux 12 (bookworm)');
      expect(await osVersion('linux', path.join(folder, 'none'))).to.equal(os.version());
      // A Windows program under Wine sees the file of the Linux below it.
      expect(await osVersion('win32', file)).to.equal(os.version());
      expect(await osVersion('darwin', file)).to.equal(os.version());
    } finally {
      await remove();
    }
  });
});
