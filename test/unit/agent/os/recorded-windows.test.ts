import { expect } from 'chai';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  EventSplitter,
  parseEventXml,
  windowsEncoding,
} from '../../../../src/agent/capabilities/event-logs/event-xml.ts';
import {
  LOG_STATES_SCRIPT,
  parseLogStates,
} from '../../../../src/agent/capabilities/event-logs/windows-log-states.ts';
import { parseNames, parseProperties } from '../../../../src/agent/capabilities/event-logs/windows-reader.ts';
import { collectInventory } from '../../../../src/agent/capabilities/inventory/collect.ts';
import { WINDOWS_SCRIPT } from '../../../../src/agent/capabilities/inventory/windows.ts';
import { parseProviders, parseWriters } from '../../../../src/agent/capabilities/shadow-copies.ts';
import { Inventory, LogEntry } from '../../../../src/protocol/index.ts';
import { describeRecorded } from '../../../support/recorded.ts';
import { recordedSources } from '../capabilities/inventory/recorded-sources.ts';

/** What `docs/record-windows.ps1` has recorded on one machine: the bytes of its files by their names. */
type Machine = ReadonlyMap<string, Buffer>;

const textOf = (bytes: Buffer) => bytes.toString(windowsEncoding(bytes)).replace(/^\uFEFF/, '');

/** Reads every file of a recording as the agent would. Throws if anything is missing from what it shows. */
async function checkMachine(machine: Machine): Promise<void> {
  for (const [name, bytes] of machine) {
    const [, check] = CHECKS.find(([names]) => names.test(name)) ?? [];
    await check?.(textOf(bytes), name);
  }
}

const CHECKS: readonly (readonly [RegExp, (text: string, name: string) => void | Promise<void>])[] = [
  [/^inventory\.json$/, checkInventory],
  [/^log-states\.json$/, (text, name) => void expect(parseLogStates(text).size, name).to.equal(3)],
  [/^wevtutil-el\.txt$/, (text, name) => void expect(parseNames(text), name).to.include('System')],
  [
    /^wevtutil-gli-/,
    (text, name) =>
      void expect(Number(parseProperties(text).get('numberoflogrecords')), name).to.be.at.least(0),
  ],
  [/^vssadmin-writers\.txt$/, checkWriters],
  [
    /^vssadmin-providers\.txt$/,
    (text, name) => void expect(parseProviders(text).length, name).to.be.greaterThan(0),
  ],
  [/^events-.*\.xml$/, checkEvents],
];

function checkWriters(text: string, name: string): void {
  // Each writer has the id of its class and that of its instance.
  const ids = text.match(/\{[0-9a-f-]{36}\}/gi)?.length ?? 0;
  expect(parseWriters(text).length, name).to.equal(ids / 2);
}

async function checkInventory(output: string): Promise<void> {
  const sources = recordedSources({ os: 'windows', outputs: { powershell: output } });
  const inventory = await collectInventory(sources, () => {});
  expect(Inventory.safeParse({ ...inventory, collectedAt: new Date().toISOString() }).success).to.equal(true);
  expect(inventory.failed).to.equal(undefined);
  expect(inventory.hardware).to.include.keys('manufacturer', 'model', 'cpuModel');
  const { software } = JSON.parse(output) as { software: { name: string }[] };
  expect(inventory.software?.length).to.equal(software.filter(({ name }) => name.trim() !== '').length);
}

function checkEvents(text: string, name: string): void {
  const splitter = new EventSplitter();
  const found = [...splitter.add(text), ...splitter.end()];
  expect(found.length, name).to.equal(text.match(/<Event[ >]/g)?.length ?? 0);
  expect(splitter.lost, name).to.equal(0);
  for (const xml of found) {
    const entry = parseEventXml(xml);
    expect(LogEntry.safeParse(entry).success, `${name}: ${xml}`).to.equal(true);
    const rendered = /<Message>([^<]+)<\/Message>/.exec(xml)?.[1];
    const expected = rendered === undefined ? 0 : rendered.trim().length / 2;
    expect(entry?.message.length, xml).to.be.greaterThan(expected);
  }
}

const EVENT =
  "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='P'/><EventID>7</EventID>" +
  "<Level>4</Level><TimeCreated SystemTime='2026-01-05T10:11:13.0000000Z'/><EventRecordID>12</EventRecordID>" +
  '<Computer>MACHINE-1</Computer><Security/></System><EventData><Data>a</Data></EventData></Event>\r\n';

const SAMPLE: Machine = new Map(
  Object.entries({
    'inventory.json':
      '{"manufacturer":"HP","model":"EliteDesk","serial":"SERIAL0001","processor":"Core i5","graphics":null,"interface":"Ethernet","user":"CORP\\\\person1","software":[{"name":"7-Zip","version":"24.08","publisher":"","installed":"20260115"}]}\r\n',
    'log-states.json': JSON.stringify(
      ['Application', 'System', 'Security'].map((name) => ({ name, count: '9', maxSize: '1', written: '' })),
    ),
    'wevtutil-el.txt': 'Application\r\nSystem\r\n',
    'wevtutil-gli-System.txt': 'numberOfLogRecords: 32042\r\n',
    'events-plain-System.xml': EVENT + EVENT,
  }).map(([name, text]) => [name, Buffer.from(text, name.endsWith('.json') ? 'utf8' : 'utf16le')]),
);

describe('the recording of a Windows machine', () => {
  const script = readFileSync(path.join(import.meta.dirname, '../../../../docs/record-windows.ps1'), 'utf8');

  it('runs the scripts that the agent runs, word for word', () => {
    const lines = (text: string) => text.trim().split(/\r?\n/).join('\n');
    for (const own of [WINDOWS_SCRIPT, LOG_STATES_SCRIPT]) expect(lines(script)).to.include(lines(own));
  });

  it('changes nothing but its own folder', () => {
    const verbs = [
      ...script.matchAll(
        /\b(?:Set|New|Remove|Add|Stop|Restart|Clear|Disable|Enable|Rename|Move|Copy)-\w+.*/g,
      ),
    ];
    for (const [line] of verbs) expect(line).to.match(/\$Folder|\$output/);
  });

  it('is read as the agent reads it, and nothing may be missing', async () => {
    await checkMachine(SAMPLE);
    for (const [name, damaged] of [
      ['inventory.json', '{"software":null}'],
      ['wevtutil-el.txt', 'Application\r\n'],
      ['events-plain-System.xml', EVENT + EVENT.replace('</Event>', '')],
    ] as const) {
      const failure = await checkMachine(new Map([[name, Buffer.from(damaged)]])).catch(
        (error: unknown) => error,
      );
      expect(failure, name).to.be.instanceOf(Error);
    }
  });
});

describeRecorded('windows/machines', 'recorded Windows machines', ({ files, bytes }) => {
  for (const machine of new Set(files.map((file) => file.split('/')[0] ?? ''))) {
    it(`show everything: ${machine}`, () =>
      checkMachine(
        new Map(
          files
            .filter((file) => file.startsWith(`${machine}/`))
            .map((file) => [file.slice(machine.length + 1), bytes(file)]),
        ),
      ));
  }
});
