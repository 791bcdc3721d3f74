import { expect } from 'chai';
import { parseJournalLine } from '../../../../src/agent/capabilities/event-logs/journal-format.ts';
import { parseHead } from '../../../../src/agent/capabilities/event-logs/text/line-format.ts';
import { parseDisks } from '../../../../src/agent/capabilities/images/find-disks.ts';
import { defaultRoute, parseApk } from '../../../../src/agent/capabilities/inventory/linux.ts';
import { lastUserOf } from '../../../../src/agent/capabilities/inventory/sources.ts';
import { parseMounts } from '../../../../src/agent/os/files/mounts.ts';
import { distributionName } from '../../../../src/agent/os/os-version.ts';
import { LogEntry } from '../../../../src/protocol/index.ts';
import { describeRecorded } from '../../../support/recorded.ts';

describeRecorded('linux/os-release', 'the names of recorded distributions', ({ files, text }) => {
  /** Files in the folder that are no os-release. */
  const others = /lsb_release|os_release_devuan|os_release_mint|os_release_solaris|uname/;
  const releases = files.filter((file) => !others.test(file));
  /** The value of a variable, as the shell understands it. */
  const variable = (file: string, name: string) =>
    new RegExp(`^${name}=["']?([^"'\n]*)["']?$`, 'm').exec(text(file))?.[1] ?? '';

  it('have the name of the distribution, and no quotation marks', () => {
    expect(releases.length).to.be.greaterThan(100);
    for (const file of releases) {
      const name = distributionName(text(file)) ?? '';
      const own = variable(file, 'PRETTY_NAME') || variable(file, 'NAME');
      // The version may be longer than in the file.
      expect(name.slice(0, 5), file).to.equal(own.slice(0, 5)).and.not.equal('');
      expect(name, file).to.match(/^[^"'\\]+$/);
    }
  });

  it('have the version, if the distribution has one', () => {
    for (const file of releases) {
      const version = /^v?\d+/.exec(variable(file, 'VERSION_ID'))?.[0] ?? '';
      expect(distributionName(text(file)), file).to.include(version.replace('v', ''));
    }
  });

  it('are those that their makers publish', () => {
    const named = (file: string) => distributionName(text(file));
    expect(named('chef-debian_12')).to.equal('Debian GNU/Linux 12 (bookworm)');
    expect(named('chef-alpine_3_21')).to.equal('Alpine Linux v3.21.4');
    expect(named('chef-sles_12')).to.equal('SUSE Linux Enterprise Server 12 SP5');
    expect(named('chef-photon_3')).to.equal('VMware Photon OS/Linux 3.0');
    expect(named('chef-opensusetumbleweed')).to.equal('openSUSE Tumbleweed 20240823');
    expect(named('chef-arch')).to.equal('Arch Linux');
    expect(named('chef-redhat_8')).to.equal('Red Hat Enterprise Linux 8.10 (Ootpa)');
    expect(named('syft-partial-fields-missing-id')).to.equal('Debian GNU/Linux 8');
  });
});

describeRecorded('linux', 'the outputs of recorded Linux machines', ({ files, text }) => {
  it('give the disk and its size, in bytes', () => {
    const [disk, ...more] = parseDisks(
      text('disks/own-lsblk-J-O.json').replaceAll(/"name": "(\w+)"/g, '"name": "/dev/$1"'),
    );
    expect(more).to.deep.equal([]);
    expect(disk).to.include({ name: 'vda', path: '/dev/vda', sizeBytes: 274_877_906_944, isInUse: true });
  });

  it('give every mount of a machine', () => {
    const content = text('proc/jc-pid_mountinfo.txt');
    const mounts = parseMounts(content);
    expect(mounts).to.have.length(content.trim().split('\n').length);
    expect(mounts.find(({ point }) => point === '/')?.type).to.equal('ext4');
    expect(mounts.every(({ id, parentId, type }) => id > 0 && parentId > 0 && type !== '')).to.equal(true);
  });

  it('give the interface of the default route, and none for a route that leads nowhere', () => {
    expect(defaultRoute(text('proc/jc-net_route.txt'))).to.equal('ens33');
    expect(defaultRoute(text('network/facter-proc_net_route_blackhole.txt'))).to.equal(undefined);
  });

  it('give the user of the newest session', () => {
    const sessions = files.filter((file) => file.endsWith('-last.txt'));
    expect(sessions).to.have.length(3);
    for (const file of sessions) expect(lastUserOf(text(file)), file).to.equal('alexuser');
  });

  it('give the packages of a database of Alpine that is damaged', () => {
    const content = text('packages/syft-alpine-corrupt');
    const packages = parseApk(content);
    expect(packages.map(({ name }) => name)).to.deep.equal(
      [...content.matchAll(/^P:(.*)$/gm)].map(([, name]) => name),
    );
    expect(packages.every(({ version }) => version !== undefined)).to.equal(true);
  });

  it('give an entry of each line of a journal', () => {
    for (const file of ['journal/own-odd-json.txt', 'journal/own-odd-json-all.txt']) {
      const lines = text(file).split('\n').filter(Boolean);
      expect(lines.length, file).to.be.greaterThan(10);
      for (const line of lines) {
        expect(LogEntry.safeParse(parseJournalLine(line)).success, line.slice(0, 300)).to.equal(true);
      }
    }
  });

  it('give the time of each entry of a text log', () => {
    const logs = files.filter((file) =>
      /plaso-(syslog|postgresql)|yumlog|insights-(messages|secure)/.test(file),
    );
    expect(logs).to.have.length(11);
    const written = Date.parse('2026-11-28T00:00:00Z');
    // Lines that continue an entry, and those that the sources damaged on purpose.
    const untimed = /^\s|^with another line|^MMM |^Bad$|^Strange line/;
    for (const file of logs) {
      const content = file.endsWith('.jsonl')
        ? text(file)
            .trim()
            .split('\n')
            .flatMap((line) => linesOf((JSON.parse(line) as { text: string }).text))
        : linesOf(text(file));
      for (const line of content.filter((one) => !untimed.test(one))) {
        expect(parseHead(line, written)?.at, `${file}: ${line}`).to.be.a('number');
      }
    }
  });
});

const linesOf = (content: string) => content.split(/\r?\n/).filter((line) => line.trim() !== '');
