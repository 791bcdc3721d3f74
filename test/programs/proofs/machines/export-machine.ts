import { Kvm } from '../../../../src/agent/capabilities/hypervisors/kvm.ts';
import { virsh } from '../../../../src/agent/capabilities/hypervisors/kvm-disks.ts';

/** An agent that exports one machine, in a process that a test can kill: ID FOLDER URI. */
const [id = '', folder = '', uri = ''] = process.argv.slice(2);
const parts = { run: virsh('virsh', uri), nbd: 'qemu-nbd', image: 'qemu-img', warn: () => {} };
await new Kvm(parts).exportTo(id, { folder, consistency: 'crash' }, new AbortController().signal);
