import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import {
  fstabFindings,
  initramfsFindings,
} from '../../../../../src/agent/capabilities/machine-restores/guest-findings.ts';
import { partitionsOf } from '../../../../../src/agent/capabilities/machine-restores/partitions.ts';

/** What a restored system needs, seen from outside. */
describe('the findings about a restored system', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-findings-'));
  });
  afterEach(async () => rm(folder, { recursive: true, force: true }));

  async function disk(...pieces: [at: number, bytes: Buffer][]): Promise<string> {
    const file = path.join(folder, 'disk.raw');
    const handle = await open(file, 'w');
    await handle.truncate(8 * 1024 ** 2);
    for (const [at, bytes] of pieces) await handle.write(bytes, 0, bytes.length, at);
    await handle.close();
    return file;
  }
  const sector = (write: (bytes: Buffer) => void, length = 512) => {
    const bytes = Buffer.alloc(length);
    write(bytes);
    return bytes;
  };
  const ext = sector((bytes) => {
    bytes.writeUInt16LE(0xef53, 1024 + 56);
    Buffer.from('00112233445566778899aabbccddeeff', 'hex').copy(bytes, 1024 + 104);
  }, 4096);
  const found = { type: 'ext', uuid: '00112233-4455-6677-8899-aabbccddeeff' };

  it('begin with the file systems on its partitions, in both kinds of tables', async () => {
    const mbr = sector((bytes) => {
      bytes.writeUInt16LE(0xaa55, 510);
      bytes.writeUInt32LE(2048, 446 + 8);
    });
    expect(await partitionsOf(await disk([0, mbr], [1_048_576, ext]))).to.deep.equal([
      { start: 1_048_576, ...found },
    ]);
    const gpt = sector((bytes) => {
      bytes.write('EFI PART');
      bytes.writeBigUInt64LE(2n, 72);
      bytes.writeUInt32LE(128, 80);
      bytes.writeUInt32LE(128, 84);
    });
    const entry = sector((bytes) => {
      bytes.fill(1, 0, 16);
      bytes.writeBigUInt64LE(4096n, 32);
    });
    const file = await disk([0, mbr], [512, gpt], [1024, entry], [2_097_152, ext]);
    expect(await partitionsOf(file)).to.deep.equal([{ start: 2_097_152, ...found }]);
  });

  it('name no partition for tables that cannot be right', async () => {
    const gpt = sector((bytes) => {
      bytes.write('EFI PART');
      bytes.fill(0xff, 72, 88);
    });
    expect(await partitionsOf(await disk([512, gpt]))).to.deep.equal([]);
    expect(await partitionsOf(await disk())).to.deep.equal([{ start: 0, type: 'other', uuid: undefined }]);
  });

  it('name what is mounted by a name or by a UUID that is not there', () => {
    const table = [
      '# a comment',
      'UUID=00112233-4455-6677-8899-AABBCCDDEEFF / ext4 defaults 0 1',
      '/dev/sdb1 /data ext4 defaults 0 2',
      'UUID=99999999-4455-6677-8899-aabbccddeeff none swap sw 0 0',
      'UUID=88888888-4455-6677-8899-aabbccddeeff /usb ext4 nofail 0 0',
      'tmpfs /tmp tmpfs defaults 0 0',
    ].join('\n');
    const findings = fstabFindings(table, new Set([found.uuid]));
    expect(findings).to.have.length(2);
    expect(findings[0]).to.contain('/data').and.contain('/dev/sdb1');
    expect(findings[1]).to.contain('none').and.contain('UUID');
  });

  it('name a start that knows only its former machine', () => {
    expect(initramfsFindings('# x\nMODULES=dep\n')).to.have.length(1);
    expect(initramfsFindings('# MODULES=dep\nMODULES=most\n')).to.deep.equal([]);
    expect(initramfsFindings(undefined)).to.deep.equal([]);
  });
});
