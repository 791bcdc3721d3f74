import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { expect } from 'chai';
import {
  atMostWarnings,
  fstabFindings,
  initramfsFindings,
  volumesOf,
} from '../../../../../src/agent/capabilities/machine-restores/restore-vm.ts';

/** What a restored system needs, seen from outside. */
describe('the findings about a restored system', () => {
  it('are fifty at most, of which the last says how many more there were', () => {
    const warnings = (count: number) => Array.from({ length: count }, (_, n) => `w${n}`);
    expect(atMostWarnings(warnings(50))).to.deep.equal(warnings(50));
    expect(atMostWarnings(warnings(60))).to.deep.equal([
      ...warnings(49),
      'There are 11 more findings, which are not listed.',
    ]);
  });

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

  const mbr = (kind: number) =>
    sector((bytes) => {
      bytes.writeUInt16LE(0xaa55, 510);
      bytes[446 + 4] = kind;
      bytes.writeUInt32LE(2048, 446 + 8);
      bytes.writeUInt32LE(2048, 446 + 12);
    });
  const entries = sector((bytes) => {
    bytes.fill(1, 0, 16);
    bytes.writeBigUInt64LE(4096n, 32);
    bytes.writeBigUInt64LE(8191n, 40);
  });
  const gpt = sector((bytes) => {
    bytes.write('EFI PART');
    bytes.writeUInt32LE(92, 12);
    bytes.writeBigUInt64LE(2n, 72);
    bytes.writeUInt32LE(4, 80);
    bytes.writeUInt32LE(128, 84);
    bytes.writeUInt32LE(crc32(entries), 88);
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 92)), 16);
  });

  it('begin with the file systems on its partitions, in both kinds of tables', async () => {
    expect(await volumesOf(await disk([0, mbr(0x83)], [1_048_576, ext]))).to.deep.equal([
      { offset: 1_048_576, ...found },
    ]);
    const file = await disk([0, mbr(0xee)], [512, gpt], [1024, entries], [2_097_152, ext]);
    expect(await volumesOf(file)).to.deep.equal([{ offset: 2_097_152, ...found }]);
  });

  it('have UUIDs of FAT as the table of file systems writes them', async () => {
    const fat = sector((bytes) => {
      bytes.write('FAT32', 82);
      bytes.writeUInt32LE(0x1a2b_3c4d, 67);
    }, 4096);
    expect(await volumesOf(await disk([0, mbr(0x0c)], [1_048_576, fat]))).to.deep.equal([
      { offset: 1_048_576, type: 'vfat', uuid: '1a2b-3c4d' },
    ]);
  });

  it('name no partition for tables that cannot be right', async () => {
    const whole = [{ offset: 0, type: 'unknown', uuid: undefined }];
    const torn = Buffer.from(gpt);
    torn.fill(0xff, 72, 88);
    expect(await volumesOf(await disk([0, mbr(0xee)], [512, torn], [1024, entries]))).to.deep.equal(whole);
    expect(await volumesOf(await disk())).to.deep.equal(whole);
  });

  it('name file systems in fstab whose device name or UUID does not exist', () => {
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
