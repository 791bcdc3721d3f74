import type { FakePrograms } from '../../support/fake-programs.ts';

/** A machine as the fake Hyper-V has it. */
export interface FakeMachine {
  id: string;
  name: string;
  state?: string;
  /** Its disk in an export. */
  content?: string;
  disks?: object[];
  checkpoints?: object[];
  /** The programs in it cannot be asked to pause. */
  cannotPause?: boolean;
}

/**
 * A PowerShell that understands the scripts of the agent by the commands in them, and answers as PowerShell 5.1 does: a
 * list of one is its entry, an empty one is nothing, and it prints texts of its own before.
 */
export const fakePowerShell = (programs: FakePrograms, machines: readonly FakeMachine[]): Promise<string> =>
  programs.add(
    'powershell',
    `
const machines = ${JSON.stringify(machines)};
const script = Buffer.from(call.args[call.args.length - 1], 'base64').toString('utf16le');
const p = JSON.parse(call.env.MUSTER_PARAMETERS);
const unrolled = (list) => (list.length === 0 ? null : list.length === 1 ? list[0] : list);
const described = (vm) => ({
  id: vm.id.toUpperCase(), name: vm.name, state: vm.state ?? 'Running', generation: 2, memory: 2147483648, processors: 2,
  disks: unrolled(vm.disks ?? [{ path: 'D:\\\\VMs\\\\' + vm.name + '.vhdx', size: (vm.content ?? '').length, passthrough: false }]),
  checkpoints: unrolled(vm.checkpoints ?? []),
});
const answer = (value) => print('WARNING: a text of a module\\r\\nMUSTER-ANSWER:' + JSON.stringify(value) + '\\r\\n');
const refuse = (code, text) => answer({ ok: false, message: 'MUSTER-REFUSAL:' + code + ':' + text, id: 'x' });
const vm = machines.find(({ id }) => id.toLowerCase() === String(p.id).toLowerCase());
if (script.includes('Import-VM')) {
  const disks = path.join(path.dirname(path.dirname(p.configuration)), 'Virtual Hard Disks');
  fs.mkdirSync(p.disks, { recursive: true });
  for (const name of fs.readdirSync(disks)) fs.copyFileSync(path.join(disks, name), path.join(p.disks, name));
  const old = path.basename(p.configuration, '.vmcx');
  return void answer({ ok: true, result: { id: p.newId ? '0000000a-0000-4000-8000-00000000000a' : old, name: p.name ?? 'its own name' } });
}
if (script.includes('Get-VMHost')) return void answer({ ok: true, result: { folder: path.join(path.dirname(__filename), 'host') } });
if (script.includes('Sort-Object -Property Name')) return void answer({ ok: true, result: unrolled(machines.map(described)) });
if (vm === undefined) return void refuse('MACHINE_MISSING', 'This device has no such machine.');
if (script.includes('Export-VM')) {
  if (vm.disks?.some(({ passthrough }) => passthrough)) return void refuse('PASSTHROUGH_DISK', 'No.');
  if (vm.cannotPause && p.consistency === 'application') return void refuse('NOT_CONSISTENT', 'No services in the guest.');
  const own = path.join(p.folder, vm.name.replaceAll(/[^A-Za-z0-9 -]/g, '_'));
  for (const [folder, name, text] of [
    ['Virtual Machines', vm.id.toUpperCase() + '.vmcx', 'configuration of ' + vm.id],
    ['Virtual Hard Disks', 'disk.vhdx', vm.content ?? ''],
    ['Snapshots', 'AAAA.vmcx', 'a checkpoint'],
  ]) {
    fs.mkdirSync(path.join(own, folder), { recursive: true });
    fs.writeFileSync(path.join(own, folder, name), text);
  }
  return void answer({ ok: true, result: { consistency: p.consistency } });
}
if (/Checkpoint-VM|Remove-VMSnapshot|Restore-VMSnapshot|Stop-VM/.test(script)) {
  if (p.checkpoint && !vm.checkpoints?.some(({ id }) => id === p.checkpoint)) return void refuse('CHECKPOINT_MISSING', 'No.');
  if (p.action === 'resume' && vm.state === 'Off') return void refuse('MACHINE_STATE', 'The machine is in the state Off.');
  return void answer({ ok: true, result: null });
}
answer({ ok: true, result: described(vm) });
`,
  );

export const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Names that try to become a part of a script, a pattern or a path. */
export const HOSTILE_NAMES = [
  "'; Remove-VM * -Force; '",
  '$(Stop-Computer)',
  '`"; exit',
  '*',
  '[a-z]',
  '../../etc',
  String.raw`..\..\Windows`,
  '-Name',
  'Ubuntu “22”',
  '"',
  '@(1)',
  '名前',
];
