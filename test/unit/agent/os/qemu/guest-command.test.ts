import { expect } from 'chai';
import { guestArguments, GuestDefinition } from '../../../../../src/agent/os/qemu/guest-definition.ts';

/** What qemu is started with. */
describe('the command line of a machine', () => {
  const guest = (change: object = {}): GuestDefinition =>
    GuestDefinition.parse({
      id: '3f0d2c1a-6f4e-4a7b-9c1d-0a1b2c3d4e5f',
      name: 'web',
      folder: '/var/lib/muster-agent/machines/3f0d2c1a-6f4e-4a7b-9c1d-0a1b2c3d4e5f',
      memoryMiB: 2048,
      processors: 2,
      bootMode: 'bios',
      bus: 'virtio',
      macAddress: '52:54:00:01:02:03',
      network: { type: 'none' },
      disks: [{ file: 'disk0.qcow2', format: 'qcow2', sectorBytes: 512 }],
      ...change,
    });
  const valuesOf = (words: string[], option: string) =>
    words.flatMap((word, index) => (word === option ? [words[index + 1]!] : []));

  it('holds nothing that a person has named', () => {
    const name = 'a, b=c "d" \'e\'\n$(reboot) -monitor stdio';
    expect(guestArguments(guest({ name }), 'tcg')).to.deep.equal(guestArguments(guest(), 'tcg'));
  });

  it('names the file of a snapshot as JSON, in which commas and quotation marks mean nothing', () => {
    const file = '/mnt/a,file.filename=/etc/shadow "x"/machine.tar';
    const base = { file, offset: 4096, sizeBytes: 1_048_576 };
    const disks = [{ file: 'disk0.qcow2', format: 'qcow2', sectorBytes: 4096, base }];
    const words = guestArguments(guest({ disks }), 'tcg');
    const [node] = valuesOf(words, '-blockdev').map((text): unknown => JSON.parse(text));
    expect(node).to.deep.include({ driver: 'qcow2', 'node-name': 'disk0' });
    expect(node).to.have.nested.property('backing.file.filename', file);
    expect(node).to.have.nested.property('backing.offset', 4096);
    expect(node).to.have.nested.property('backing.read-only', true);
    expect(words.filter((word) => word.includes('shadow'))).to.have.length(1);
    const device: unknown = JSON.parse(valuesOf(words, '-device').find((word) => word.includes('disk0'))!);
    expect(device).to.deep.include({ werror: 'stop', rerror: 'stop', logical_block_size: 4096 });
  });

  it('reaches nothing if it is isolated, and is reached on the loopback address only', () => {
    const network = { type: 'user', isIsolated: true, forwards: [{ hostPort: 4000, guestPort: 80 }] };
    expect(valuesOf(guestArguments(guest({ network }), 'tcg'), '-netdev')).to.deep.equal([
      'user,id=net0,restrict=on,hostfwd=tcp:127.0.0.1:4000-:80',
    ]);
    expect(valuesOf(guestArguments(guest(), 'tcg'), '-netdev')).to.deep.equal([]);
  });

  it('has firmware of its own if it starts by UEFI', () => {
    const words = guestArguments(guest({ bootMode: 'uefi' }), 'kvm').join(' ');
    expect(words).to.contain('pflash1=variables').and.contain('"filename":"firmware-variables.fd"');
    expect(guestArguments(guest(), 'kvm').join(' ')).not.to.contain('pflash');
  });

  it('is refused for files outside of its folder and for bridges that are more than a name', () => {
    for (const file of ['../disk.raw', '/etc/shadow', 'a,b', '']) {
      expect(() => guest({ disks: [{ file, format: 'raw', sectorBytes: 512 }] }), file).to.throw();
    }
    for (const bridge of ['br0,model=x', '-x', 'a b', 'x'.repeat(16)]) {
      expect(() => guest({ network: { type: 'bridge', bridge } }), bridge).to.throw();
    }
  });
});
