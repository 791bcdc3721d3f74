import { expect } from 'chai';
import type { TimelineEntry } from '../../../src/dashboard/api/routes.ts';
import {
  byDay,
  changeText,
  softwareText,
  timelineRows,
} from '../../../src/dashboard/features/devices/timeline-rows.ts';

const common = { endedAt: null, by: null };
const at = (minutes: number) => new Date(Date.UTC(2026, 10, 29, 12, minutes)).toISOString();
const presence = (minutes: number, state: 'connected' | 'disconnected'): TimelineEntry => ({
  ...common,
  kind: 'presence',
  id: String(minutes),
  at: at(minutes),
  state,
  reason: state === 'connected' ? 'connected' : 'socket_closed',
});
const note = (minutes: number): TimelineEntry => ({
  ...common,
  kind: 'note',
  id: String(minutes),
  at: at(minutes),
  text: 'A note',
  isPinned: false,
  editedAt: null,
});

describe('the rows of a timeline', () => {
  it('show a connection that comes and goes many times in one', () => {
    const many = Array.from({ length: 9 }, (_, place) =>
      presence(40 - place, place % 2 === 0 ? 'connected' : 'disconnected'),
    );
    expect(timelineRows([note(50), ...many, note(10)])).to.deep.equal([
      { kind: 'entry', key: 'note 50', at: at(50), entry: note(50) },
      { kind: 'flapping', key: 'flapping 32', at: at(40), since: at(32), losses: 4, state: 'connected' },
      { kind: 'entry', key: 'note 10', at: at(10), entry: note(10) },
    ]);
  });

  it('show few changes of the connection, and those with something between them, one by one', () => {
    const few = [presence(9, 'connected'), presence(8, 'disconnected')];
    const all = [...few, note(7), presence(6, 'connected'), presence(5, 'disconnected'), note(4), ...few];
    expect(timelineRows(all).every(({ kind }) => kind === 'entry')).to.equal(true);
    expect(timelineRows(all)).to.have.length(all.length);
    expect(timelineRows([])).to.deep.equal([]);
  });

  it('lie below their days, in their order', () => {
    const rows = timelineRows([note(30), note(20), note(10)]);
    const days = byDay(rows, (date) => (date.getUTCMinutes() > 15 ? 'Today' : 'Yesterday'));
    expect(days.map(({ day, rows: { length } }) => [day, length])).to.deep.equal([
      ['Today', 2],
      ['Yesterday', 1],
    ]);
  });

  it('say in words what has changed', () => {
    const software = { ...common, kind: 'software', id: '1', at: at(1) } as const;
    expect(softwareText({ ...software, installed: 1, updated: 0, removed: 0, names: ['Firefox'] })).to.equal(
      '1 program installed: Firefox',
    );
    expect(
      softwareText({ ...software, installed: 2, updated: 3, removed: 1, names: ['A', 'B', 'C', 'D', 'E'] }),
    ).to.equal('2 programs installed, 3 updated, 1 removed: A, B, C, D, E and 1 more');
    const change = { ...common, kind: 'change', id: '1', at: at(1), result: 'success' } as const;
    const inWords = (field: string) => field.replaceAll(/([A-Z])/g, ' $1').toLowerCase();
    expect(
      changeText({ ...change, action: 'device.update', fields: ['displayName', 'tags'] }, inWords),
    ).to.equal('Changed display name, tags');
    expect(
      changeText({ ...change, action: 'device.service.stop', fields: [], result: 'denied' }, inWords),
    ).to.equal('A service was stopped (denied)');
    expect(changeText({ ...change, action: 'device.unknown', fields: [] }, inWords)).to.equal('Changed');
  });
});
