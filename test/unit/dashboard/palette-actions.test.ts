import { expect } from 'chai';
import { byKind, isFoundBy, readTyped, stillMatching } from '../../../src/dashboard/app/palette-actions.ts';

describe('what is typed into the palette', () => {
  it('begins with a verb only if a space follows it', () => {
    expect(readTyped('reboot front')).to.deep.equal({ verb: 'reboot', about: 'front' });
    expect(readTyped('  Restart  FRONT-004 ')).to.deep.equal({ verb: 'restart', about: 'FRONT-004' });
    expect(readTyped('move ')).to.deep.equal({ verb: 'move', about: '' });
    for (const text of ['', ' ', 'reboot', 'reboot-01', 'front reboot', 'running late', '😀 x']) {
      expect(readTyped(text), text).to.equal(undefined);
    }
  });

  it('says which script is to run and where', () => {
    const run = (text: string) => readTyped(text);
    expect(run('run cleanup')).to.deep.equal({ verb: 'run', about: 'cleanup' });
    expect(run('run cleanup on front')).to.include({ script: 'cleanup', device: 'front' });
    expect(run('run script cleanup on front')).to.include({ script: 'cleanup', device: 'front' });
    expect(run('run on front')).to.include({ script: '', device: 'front' });
    expect(run('run a script on ')).to.include({ script: '', device: '' });
    // A script may have the word in its name: what stands behind the first one is the device.
    expect(run('run turn lights on on front')).to.include({ script: 'turn lights', device: 'on front' });
    expect(run('run one-click')).to.deep.equal({ verb: 'run', about: 'one-click' });
    expect(run('run scripts-cleaner')).to.deep.equal({ verb: 'run', about: 'scripts-cleaner' });
  });

  it('says what is to be looked at, and which list is to be searched', () => {
    expect(readTyped('errors front')).to.deep.equal({ verb: 'errors', about: 'front' });
    expect(readTyped('disk front')).to.deep.equal({ verb: 'disk', about: 'front' });
    expect(readTyped('approve ')).to.deep.equal({ verb: 'approve', about: '' });
    expect(readTyped('software TeamViewer 15')).to.deep.equal({ verb: 'software', about: 'TeamViewer 15' });
    // Without a space behind it, the page with this name is meant.
    for (const text of ['software', 'audit', 'history']) expect(readTyped(text), text).to.equal(undefined);
  });

  it('finds pages and actions by the beginnings of their words', () => {
    expect(isFoundBy('al ru', ['New alert rule'])).to.equal(true);
    expect(isFoundBy('', ['Anything'])).to.equal(true);
    expect(isFoundBy('add dev', ['Enroll a device', 'add'])).to.equal(true);
    expect(isFoundBy('lert', ['Alerts'])).to.equal(false);
    expect(isFoundBy('(.*', ['Alerts'])).to.equal(false);
  });

  it('does not leave an entry that no longer matches where Enter would take it', () => {
    const found = [
      { title: 'FRONT-004' },
      { title: 'BACK-1', description: 'Last user front.desk' },
      { title: 'FR' },
    ];
    expect(stillMatching(found, 'front').map(({ title }) => title)).to.deep.equal(['FRONT-004', 'BACK-1']);
    expect(stillMatching(found, 'back-2')).to.deep.equal([]);
  });

  it('shows results by kind, that of the best result first', () => {
    const results = [
      { type: 'users', id: 'a' },
      { type: 'devices', id: 'b' },
      { type: 'users', id: 'c' },
    ];
    expect(
      [...byKind(results)].map(([kind, found]) => [kind, found.map(({ id }) => id).join('')]),
    ).to.deep.equal([
      ['users', 'ac'],
      ['devices', 'b'],
    ]);
  });
});
