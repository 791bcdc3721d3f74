import os from 'node:os';
import { expect } from 'chai';
import { osVersion } from '../../../../src/agent/os/os-version.ts';

/** The version of a system that has these files. */
const versionOf = (platform: NodeJS.Platform, files: Record<string, string>) =>
  osVersion(platform, async (file) => files[file]);
const linux = (release: string) => versionOf('linux', { '/etc/os-release': release });

describe('agent: the version of the operating system', () => {
  it('is that of the distribution on Linux, and of the system itself without a file that it knows', async () => {
    expect(await linux('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')).to.equal(
      'Debian GNU/Linux 12 (bookworm)',
    );
    expect(await versionOf('linux', {})).to.equal(os.version());
    expect(await linux('# nothing\nPRETTY_NAME=""\n')).to.equal(os.version());
  });

  it('is read from the files of older systems', async () => {
    expect(await versionOf('linux', { '/usr/lib/os-release': "PRETTY_NAME='Void Linux'" })).to.equal(
      'Void Linux',
    );
    expect(await versionOf('linux', { '/etc/redhat-release': 'CentOS release 6.10 (Final)\n' })).to.equal(
      'CentOS release 6.10 (Final)',
    );
    expect(
      await versionOf('linux', { '/etc/lsb-release': 'DISTRIB_DESCRIPTION="Ubuntu 10.04.4 LTS"\r\n' }),
    ).to.equal('Ubuntu 10.04.4 LTS');
  });

  it('understands the quotes of the shell', async () => {
    expect(await linux(`  PRETTY_NAME='Bob"s Linux'\r\n`)).to.equal('Bob"s Linux');
    expect(await linux(String.raw`PRETTY_NAME="a \"b\" \\ \$c"`)).to.equal(String.raw`a "b" \ $c`);
    expect(await linux('PRETTY_NAME=Slackware\nPRETTY_NAME=EndeavourOS')).to.equal('EndeavourOS');
  });

  it('has the version of a distribution that leaves it out of its name', async () => {
    expect(await linux('NAME=Wolfi\nVERSION_ID=20230201')).to.equal('Wolfi 20230201');
    expect(await linux('PRETTY_NAME="Alpine Linux v3.2"\nVERSION_ID=3.2.11')).to.equal(
      'Alpine Linux v3.2.11',
    );
    expect(await linux('PRETTY_NAME="SLES 12 SP5"\nVERSION_ID="12.5"')).to.equal('SLES 12 SP5');
    expect(await linux('PRETTY_NAME="Arch Linux"\nVERSION_ID=TEMPLATE_VERSION_ID')).to.equal('Arch Linux');
  });

  it('is the one of macOS, and not of its kernel', async () => {
    const plist = (key: string) =>
      `<plist><dict><key>ProductName</key><string>macOS</string>\n<key>${key}</key>\n<string>14.5</string></dict></plist>`;
    const file = '/System/Library/CoreServices/SystemVersion.plist';
    for (const key of ['ProductVersion', 'ProductUserVisibleVersion']) {
      expect(await versionOf('darwin', { [file]: plist(key) })).to.equal('macOS 14.5');
    }
    expect(await versionOf('darwin', {})).to.equal(os.version());
  });

  it('is not read from the file of another system', async () => {
    const files = { '/etc/os-release': 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"' };
    expect(await versionOf('win32', files)).to.equal(os.version());
    expect(await versionOf('darwin', files)).to.equal(os.version());
  });
});
