import { expect } from 'chai';
import { LOG_STATES_SCRIPT } from '../../../src/agent/capabilities/event-logs/windows-log-states.ts';
import { eventually } from '../../support/eventually.ts';
import { connectDashboard } from '../../support/dashboard-client.ts';
import { recorded } from '../../support/recorded.ts';
import { connectedDevice, type ManagedWindows, startManagedWindows } from './support/managed-windows.ts';
import { needsWine } from './support/needs-wine.ts';
import {
  type RecordedLogs,
  recordedLogs,
  recordedMessages,
  wevtutil,
  withNewEvent,
} from './support/recorded-events.ts';

/**
 * The event logs of a Windows machine (Wine), asked of a real server, with the events of real machines. Without the
 * recordings there are no tests.
 */
const recordings = recorded('windows/event-logs');
if (recordings === undefined) {
  process.stdout.write('  The event logs of Windows: no recordings here, nothing is read\n');
} else {
  describe('the event logs of a Windows machine', function () {
    this.timeout(240_000);
    const closed = new Set(['Microsoft-Windows-LiveId/Operational']);
    let windows: ManagedWindows;
    let logs: RecordedLogs;
    let deviceId: string;

    const read = (where: string) => windows.get(`/devices/${deviceId}/eventlogs/${where}`);
    /** The ids and levels of entries, newest first. */
    const found = async (log: string, conditions: string) => {
      const { data } = await read(`${encodeURIComponent(log)}/events?${conditions}`);
      return data as { recordId: number; level: string; message: string; eventId: number; source: string }[];
    };
    const recordedIds = (log: string, matches: (xml: string) => boolean) =>
      (logs.get(log) ?? [])
        .filter(({ xml }) => matches(xml))
        .map(({ xml }) => Number(/<EventRecordID>(\d+)/.exec(xml)?.[1]))
        .toReversed();

    before(async function () {
      needsWine(this);
      logs = recordedLogs(recordings);
      windows = await startManagedWindows((names) =>
        names.map((name) => ({
          name,
          count: String(logs.get(name)?.length ?? 0),
          maxSize: '20971520',
          written: '2026-01-05T10:11:12.1230000Z',
        })),
      );
      windows.machine.standIns.on('wevtutil', wevtutil(logs, recordedMessages(recordings), closed));
      deviceId = await connectedDevice(windows);
    });
    after(() => windows?.close());

    it('are listed with their counts, by one process for the names and one for the states', async () => {
      const before = windows.machine.standIns.calls.length;
      const { data } = await read('live');
      expect(
        data.map(({ name, recordCount }: Record<string, unknown>) => [name, recordCount]),
      ).to.deep.include.members([
        ['System', 1000],
        ['Security', 636],
        ['Application', 17],
      ]);
      // Not one process for each log. Beside it, the agent looks for new warnings and takes samples.
      const asked = windows.machine.standIns.calls.slice(before);
      const verbs = asked.flatMap(({ program, args }) => (program === 'wevtutil' ? args.slice(0, 1) : []));
      expect(verbs).to.include('el').and.not.include('gl').and.not.include('gli');
      const script = Buffer.from(LOG_STATES_SCRIPT, 'utf16le').toString('base64');
      expect(asked.filter(({ args }) => args.includes(script))).to.have.length(1);
    });

    it('show each entry with what its event says, whether Windows has a text for it or not', async () => {
      const messages = recordedMessages(recordings);
      let known = 0;
      for (const log of ['Security', 'Application', 'Microsoft-Windows-CAPI2/Operational']) {
        const entries = await found(log, 'limit=500');
        expect(entries.map(({ recordId }) => recordId)).to.deep.equal(
          recordedIds(log, () => true).slice(0, 500),
        );
        for (const { eventId, message } of entries) {
          const text = messages.get(String(eventId))?.trim();
          if (text === undefined) expect(message).to.match(/(^|\n)\(Windows has no text for this event\.\)$/);
          else expect(message).to.equal(text);
          known += text === undefined ? 0 : 1;
        }
      }
      expect(known).to.be.greaterThan(5);
    });

    it('are filtered by level, with refused sign-ins as warnings', async () => {
      const refused = recordedIds('Security', (xml) => xml.includes('<Keywords>0x8010000000000000'));
      expect(refused.length).to.be.greaterThan(0);
      const entries = await found('Security', 'level=warning&limit=500');
      expect(entries.map(({ recordId }) => recordId)).to.deep.equal(refused);
    });

    it('are filtered by id, source, time and text', async () => {
      const ids = async (conditions: string) =>
        (await found('System', `${conditions}&limit=500`)).map(({ recordId }) => recordId);
      const of = (matches: (xml: string) => boolean) => recordedIds('System', matches).slice(0, 500);
      expect(await ids('eventId=7036')).to.deep.equal(of((xml) => /<EventID[^>]*>7036</.test(xml)));
      expect(await ids('source=microsoft-windows-kernel-general')).to.deep.equal(
        of((xml) => xml.includes("Provider Name='Microsoft-Windows-Kernel-General'")),
      );
      const timeOf = (xml: string) => Date.parse(/SystemTime='([^']*)/.exec(xml)?.[1] ?? '');
      const times = (logs.get('System') ?? []).map(({ xml }) => timeOf(xml));
      const [from = 0, to = 0] = [times[300], times[400]];
      expect(
        await ids(`startTime=${new Date(from).toISOString()}&endTime=${new Date(to).toISOString()}`),
      ).to.deep.equal(of((xml) => timeOf(xml) >= from && timeOf(xml) <= to));
      const texts = await found('System', 'text=software protection&limit=5');
      expect(texts).to.have.length(5);
      expect(texts.every(({ message }) => message.toLowerCase().includes('software protection'))).to.equal(
        true,
      );
    });

    it('show one record, and say which do not exist', async () => {
      const [newest] = await found('System', 'limit=1');
      const { data } = await read(`System/events/${newest?.recordId}`);
      expect(data).to.include({ recordId: newest?.recordId });
      expect(data.rawXml).to.match(/^<Event xmlns=/);
      expect(await read('System/events/99999999')).to.include({ code: 'NOT_FOUND' });
      expect(await read('Nothing/events')).to.include({ code: 'NOT_FOUND' });
    });

    it('say that this user may not read one', async () => {
      const [name = ''] = closed;
      const { details } = await read(`${encodeURIComponent(name)}/events`);
      expect(details.message).to.equal(`Windows does not let the agent read the log '${name}'.`);
    });

    it('are followed as events arrive, until nobody asks any more', async () => {
      const dashboard = await connectDashboard(windows.app, windows.tenant.admin.token);
      try {
        const answers: { rows: { recordId: number }[] }[] = [];
        dashboard.socket.on('eventlogs:rows', (some) => answers.push(some));
        const { queryId } = await dashboard.send('eventlogs:tail', { deviceId, name: 'Application' });
        const asked = () =>
          windows.machine.standIns.calls.filter(
            ({ args }) => args[1] === 'Application' && args[2]?.includes('EventRecordID>') === true,
          );
        await eventually(asked, ({ length }) => length > 0, 20_000);
        const { logs: later, recordId } = withNewEvent(logs, 'Application');
        windows.machine.standIns.on('wevtutil', wevtutil(later, recordedMessages(recordings)));
        await eventually(
          () => answers.flatMap(({ rows }) => rows).map(({ recordId }) => recordId),
          (seen) => seen.includes(recordId),
          20_000,
        );
        await dashboard.send('eventlogs:cancel', { queryId });
        const until = asked().length;
        await new Promise((resolve) => setTimeout(resolve, 5000));
        expect(asked().length - until).to.be.at.most(1);
      } finally {
        dashboard.close();
      }
    });
  });
}
