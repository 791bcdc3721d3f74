import { expect } from 'chai';
import { parseUnitFiles, parseUnits } from '../../../../../src/agent/capabilities/services/linux.ts';
import { MachineServices } from '../../../../../src/agent/capabilities/services/machine-services.ts';
import { parseLaunchctl } from '../../../../../src/agent/capabilities/services/macos.ts';
import { parseScQuery, parseServiceDetails } from '../../../../../src/agent/capabilities/services/windows.ts';
import type { Sources } from '../../../../../src/agent/os/machine-sources.ts';
import { describeRecorded } from '../../../../support/recorded.ts';
import { useTestClock } from '../../../../support/use-test-clock.ts';

describeRecorded('linux/systemd', 'services in recorded output of systemctl', ({ text }) => {
  const stateOf = (file: string, name: string) =>
    parseUnits(text(file)).find((service) => service.name === name);

  it('are read from CentOS 7, Ubuntu 18.04 and their marks, and nothing else is', () => {
    const centos = parseUnits(text('jc-centos-7.7-systemctl.txt'));
    expect(centos).to.have.length.above(50);
    expect(centos.every(({ name }) => /^[\w@:.\\-]+$/.test(name))).to.equal(true);
    expect(stateOf('jc-centos-7.7-systemctl.txt', 'sshd')).to.deep.include({ state: 'running' });
    expect(stateOf('jc-ubuntu-18.04-systemctl.txt', 'acpid')).to.deep.equal({
      name: 'acpid',
      displayName: 'ACPI event daemon',
      state: 'stopped',
    });
    expect(stateOf('jc-ubuntu-18.04-systemctl.txt', 'apparmor')).to.deep.include({ state: 'running' });
    const named = text('jc-ubuntu-18.04-systemctl.txt').match(/(\S+)\.service\s+not-found/)?.[1];
    expect(named).to.be.a('string');
    expect(stateOf('jc-ubuntu-18.04-systemctl.txt', named ?? '')).to.equal(undefined);
  });

  it('have their start modes, with and without the column of presets', () => {
    const files = parseUnitFiles(text('jc-ubuntu-18.04-systemctl-luf.txt'));
    expect(files.get('ssh')).to.deep.equal({ startMode: 'automatic' });
    expect(new Set([...files.values()].map(({ startMode }) => startMode))).to.include.members([
      'automatic',
      'manual',
      'disabled',
    ]);
    expect(parseUnitFiles(text('puppet-list_unit_files_services_vendor_preset.txt')).size).to.be.above(5);
  });
});

/** In the format that `systemctl list-units --plain --no-legend` of systemd 252 prints. */
describe('services of systemd', () => {
  it('are in one state each', () => {
    const output = `
nginx.service                loaded    active       running      A high performance web server
apparmor.service             loaded    active       exited       Load AppArmor profiles
app.service                  loaded    activating   auto-restart An application
job.service                  loaded    activating   start        A job
old.service                  loaded    deactivating stop-sigterm Old
broken.service               loaded    failed       failed       Broken
● marked.service             loaded    failed       failed       Marked
idle.service                 loaded    inactive     dead         idle.service
gone.service                 not-found inactive     dead         gone.service
run-u12.service              loaded    active       running      /usr/bin/sleep 60
user@1000.service            loaded    active       running      User Manager for UID 1000
systemd-fsck@dev-disk-by\\x2duuid-1.service loaded active exited File System Check
what.service                 loaded    levitating   high         What
no words
`;
    expect(parseUnits(output).map(({ name, state }) => `${name} ${state}`)).to.deep.equal([
      'nginx running',
      'apparmor running',
      'app failed',
      'job starting',
      'old stopping',
      'broken failed',
      'marked failed',
      'idle stopped',
      'user@1000 running',
      String.raw`systemd-fsck@dev-disk-by\x2duuid-1 running`,
    ]);
    expect(parseUnits(output).find(({ name }) => name === 'idle')).to.not.have.property('displayName');
  });
});

describeRecorded('macos', 'services in recorded output of launchctl', ({ text }) => {
  it('run, are stopped, or have ended with an error', () => {
    const services = parseLaunchctl(text('inspec-launchctl-list.txt'));
    expect(services).to.deep.include({ name: 'org.openbsd.ssh-agent', state: 'running' });
    expect(services).to.deep.include({ name: 'com.apple.FilesystemUI', state: 'stopped' });
    expect(services).to.deep.include({ name: 'org.example.killed-agent', state: 'stopped' });
    expect(services.some(({ name }) => name === 'Label')).to.equal(false);
  });
});

describe('services of launchd', () => {
  it('have failed after a crash or with a code, and opened programs are none', () => {
    const output =
      '-\t78\tcom.a\n-\t-11\tcom.b\n-\t-9\tcom.c\n12\t-9\tcom.d\n99\t0\tapplication.com.apple.Terminal.1.2\n';
    expect(parseLaunchctl(output).map(({ name, state }) => `${name} ${state}`)).to.deep.equal([
      'com.a failed',
      'com.b failed',
      'com.c stopped',
      'com.d running',
    ]);
  });
});

/** In the format that Microsoft documents for `sc query`; the German and Spanish words are from its translations. */
describe('services of Windows', () => {
  const block = (title: string, second: string, numbers: [string, string, string, string]) =>
    [
      title,
      second,
      `        TYPE               : ${numbers[0]}  WIN32`,
      `        STATE              : ${numbers[1]}  WORD`,
      '                                (STOPPABLE, NOT_PAUSABLE, ACCEPTS_SHUTDOWN)',
      `        WIN32_EXIT_CODE    : ${numbers[2]}  (0x0)`,
      `        SERVICE_EXIT_CODE  : ${numbers[3]}  (0x0)`,
      '        CHECKPOINT         : 0x0',
      '        WAIT_HINT          : 0x0',
    ].join('\r\n');
  const named = (name: string, numbers: [string, string, string, string]) =>
    block(`SERVICE_NAME: ${name}`, `DISPLAY_NAME: The ${name}`, numbers);

  it('are read by the order of the lines and their numbers', () => {
    const output = `\r\n${[
      named('Spooler', ['110', '4', '0', '0']),
      named('BITS', ['20', '1', '0', '0']),
      named('NeverStarted', ['20', '1', '1077', '0']),
      named('Crashed', ['10', '1', '1067', '0']),
      named('OwnCode', ['10', '1', '1066', '3']),
      named('OwnSuccess', ['10', '1', '1066', '0']),
      named('Starting', ['10', '2', '0', '0']),
      named('Paused', ['10', '7', '0', '0']),
      named('CDPUserSvc_5a3f1', ['f0', '4', '0', '0']),
      named('CDPUserSvc', ['60', '1', '1077', '0']),
      block('NOMBRE_SERVICIO: W32Time', 'NOMBRE_MOSTRAR : Hora de Windows', ['20', '4', '0', '0']),
      block('SERVICE_NAME: Audiosrv', 'DISPLAY_NAME: Windows-Audio f\uFFFDr alle: Ger\uFFFDte', [
        '10',
        '4',
        '0',
        '0',
      ]),
    ].join('\r\n\r\n')}\r\n`;
    expect(parseScQuery(output).map(({ name, state }) => `${name} ${state}`)).to.deep.equal([
      'Spooler running',
      'BITS stopped',
      'NeverStarted stopped',
      'Crashed failed',
      'OwnCode failed',
      'OwnSuccess stopped',
      'Starting starting',
      'Paused paused',
      'CDPUserSvc stopped',
      'W32Time running',
      'Audiosrv running',
    ]);
    const displayed = new Map(parseScQuery(output).map(({ name, displayName }) => [name, displayName]));
    expect(displayed.get('Spooler')).to.equal('The Spooler');
    expect(displayed.get('W32Time')).to.equal('Hora de Windows');
    // A name in another code page than UTF-8 is left to PowerShell.
    expect(displayed.get('Audiosrv')).to.equal(undefined);
  });

  it('have their details from PowerShell', () => {
    const output = JSON.stringify([
      { name: 'Spooler', title: 'Druckwarteschlange', start: 'Auto' },
      { name: 'odd', title: null, start: 'Unknown' },
    ]);
    expect([...parseServiceDetails(output)]).to.deep.equal([
      ['Spooler', { displayName: 'Druckwarteschlange', startMode: 'automatic' }],
      ['odd', {}],
    ]);
  });
});

describe('the services of a machine', () => {
  const time = useTestClock({ isRunning: false });
  let ran: string[];
  let units: string[];
  const sources = (more: Partial<Sources> = {}): Sources => ({
    os: 'linux',
    file: async () => undefined,
    memoryFiles: async () => [],
    names: async () => [],
    written: async () => new Map([['system', 0]]),
    async output(_program, args) {
      ran.push(args[0] ?? '');
      return args[0] === 'list-units'
        ? units.map((unit) => `${unit}.service loaded active running ${unit} itself`).join('\n')
        : units.map((unit) => `${unit}.service enabled enabled`).join('\n');
    },
    interfaces: () => ({}),
    ...more,
  });
  beforeEach(() => {
    ran = [];
    units = ['nginx'];
  });

  it('are none without systemd, although its program is there', async () => {
    const machine = new MachineServices(sources({ written: async () => new Map() }));
    expect(await machine.read()).to.deep.equal({ manager: 'none', services: [] });
    expect(ran).to.deep.equal([]);
  });

  it('are read each time, and their start modes every few hours or when one is new', async () => {
    const machine = new MachineServices(sources());
    const nginx = { name: 'nginx', displayName: 'nginx itself', state: 'running', startMode: 'automatic' };
    expect(await machine.read()).to.deep.equal({ manager: 'systemd', services: [nginx] });
    await time.advance(60_000);
    await machine.read();
    expect(ran).to.deep.equal(['list-units', 'list-unit-files', 'list-units']);
    units.push('redis');
    await machine.read();
    expect(ran).to.have.length(4);
    await time.advance(10 * 60_000);
    expect((await machine.read()).services[1]).to.deep.include({ name: 'redis', startMode: 'automatic' });
    expect(ran.filter((one) => one === 'list-unit-files')).to.have.length(2);
    await time.advance(6 * 3_600_000);
    await machine.read();
    expect(ran.filter((one) => one === 'list-unit-files')).to.have.length(3);
  });

  it('are reported without start modes that cannot be read, but not if they cannot be read themselves', async () => {
    const failing = (what: string) =>
      new MachineServices(
        sources({
          async output(_program, args) {
            if (args[0] === what) throw new Error('It failed.');
            return 'nginx.service loaded active running The server';
          },
        }),
      );
    const list = await failing('list-unit-files').read();
    expect(list.services).to.deep.equal([{ name: 'nginx', displayName: 'The server', state: 'running' }]);
    const fault = await failing('list-units')
      .read()
      .then(
        () => undefined,
        (error: Error) => error.message,
      );
    expect(fault).to.equal('It failed.');
    units = [];
    const empty = await new MachineServices(sources()).read().then(
      () => undefined,
      (error: Error) => error.message,
    );
    expect(empty).to.equal('The service manager listed no services.');
  });
});
