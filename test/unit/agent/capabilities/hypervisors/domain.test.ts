import { expect } from 'chai';
import fc from 'fast-check';
import { type Domain, parseDomain } from '../../../../../src/agent/capabilities/hypervisors/kvm-domain.ts';
import { newDomainXml } from '../../../../../src/agent/capabilities/hypervisors/kvm-import.ts';

const ID = '11111111-2222-4333-8444-555555555555';
const OTHER = '21111111-2222-4333-8444-555555555555';

const definition = (devices: string, more = '') => `<domain type='kvm' id='1'>
  <name>web &amp; &quot;one&quot;</name><uuid>${ID.toUpperCase()}</uuid>
  <memory unit='KiB'>131072</memory><vcpu placement='static' current='1'>2</vcpu>
  <os${more}><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <devices>${devices}</devices></domain>`;
const disk = (target: string, source: string, more = '') =>
  `<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>${source}${more}<target dev='${target}' bus='virtio'/></disk>`;

describe('agent: definitions of machines of libvirt', () => {
  it('give what a backup needs', () => {
    const found = parseDomain(
      definition(
        `${disk('vda', `<source file='/a/b &amp; c, d.qcow2' index='2'/>`, `<backingStore type='file'><format type='raw'/><source file='/base.raw'/><backingStore/></backingStore>`)}
         <disk type='block' device='disk'><driver type='raw'/><source dev='/dev/vg/x'/><target dev='vdb' bus='scsi'/><serial>S1</serial><blockio logical_block_size='4096'/></disk>
         <disk type='block' device='lun'><driver type='raw'/><source dev='/dev/sdb'/><target dev='sdc'/></disk>
         <disk type='network' device='disk'><driver type='raw'/><source protocol='rbd' name='pool/x'/><target dev='vdd'/></disk>
         <disk type='file' device='cdrom'><target dev='sda'/><readonly/></disk>
         <interface type='bridge'><mac address='52:54:00:01:02:03'/><source bridge='br0'/><model type='virtio'/></interface>`,
        ` firmware='efi'`,
      ),
    );
    expect(found).to.deep.include({ id: ID, name: 'web & "one"', memoryBytes: 2 ** 27, processors: 2 });
    expect(found).to.deep.include({ bootMode: 'uefi', targets: ['vda', 'vdb', 'sdc', 'vdd', 'sda'] });
    const [first, second, third, fourth] = found.disks;
    expect(first).to.deep.include({ path: '/a/b & c, d.qcow2', format: 'qcow2', bases: ['/base.raw'] });
    expect(second).to.deep.include({
      path: '/dev/vg/x',
      isBlockDevice: true,
      sectorBytes: 4096,
      serial: 'S1',
    });
    expect([third?.isPassthrough, fourth?.path, found.disks.length]).to.deep.equal([true, null, 4]);
    expect(found.cards).to.deep.equal([
      { mac: '52:54:00:01:02:03', model: 'virtio', network: null, bridge: 'br0' },
    ]);
  });

  it('are refused if they are none', () => {
    const texts = ['', '<domain/>', 'x'.repeat(2_000_000), '{"domain":1}'];
    texts.push(`<!DOCTYPE d [<!ENTITY x "y">]>${definition('')}`, definition('').replace('131072', '1e99'));
    for (const text of texts) expect(() => parseDomain(text)).to.throw('cannot be read');
  });

  it('name nothing of the snapshot but a few facts when they are written anew', () => {
    const hostile = parseDomain(
      definition(
        `<emulator>/tmp/evil</emulator><hostdev mode='subsystem' type='pci'/><filesystem type='mount'><source dir='/'/><target dir='x'/></filesystem>
         ${disk('vda', `<source file='/etc/shadow'/>`)}
         <interface type='bridge'><mac address='not a mac'/><source bridge='br0'/><model type='&apos;/&gt;evil'/><script path='/tmp/evil'/></interface>`,
      ).replace('</domain>', `<qemu:commandline><qemu:arg value='-evil'/></qemu:commandline></domain>`),
    );
    const xml = newDomainXml(hostile, wanted({ name: 'copy' }));
    for (const word of ['evil', 'shadow', 'hostdev', 'filesystem', 'commandline', 'not a mac', 'br0']) {
      expect(xml).not.to.include(word);
    }
    expect(xml).to.include(`<link state='down'/>`);
  });

  it('hold any name as nothing but a name', () => {
    const from = parseDomain(definition(disk('vda', `<source file='/a'/>`)));
    const names = fc
      .string({ minLength: 1, unit: 'grapheme' })
      .filter((name) => !/[\p{Cc}\p{Cs}]/u.test(name));
    fc.assert(
      fc.property(names, names, (name, file) => {
        fc.pre(name.trim() === name && file.trim() === file);
        const again: Domain = parseDomain(newDomainXml(from, wanted({ name, file: `/x/${file}` })));
        expect([again.name, again.disks[0]?.path]).to.deep.equal([name, `/x/${file}`]);
      }),
    );
  });
});

const wanted = ({ name, file = '/x/disk0.qcow2' }: { name: string; file?: string }) => ({
  id: OTHER,
  name,
  isCopy: true,
  disks: [{ file, target: 'vda', bus: 'virtio', sectorBytes: 512 }],
  networks: new Set<string>(),
  bridges: new Set<string>(),
});
