import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { cutsOf, listBoundsOf } from './cuts.ts';

/**
 * A limit that cuts a list, a line or an output says in its result that it has cut: nobody takes a part for the whole.
 * Every place of the source that cuts is listed here with what says so, or with the reason why nothing has to. A cut
 * that is not listed fails.
 */

/** By part of the product and cut, each as `list limit`: the words by which results say that they are cut. */
type Listed<Word extends string> = Readonly<Record<string, Readonly<Record<string, readonly Word[]>>>>;

/** One of the words stands in the file of the cut or in a file of its folder or the folder above. */
const SAID: Listed<string> = {
  agent: {
    '#lines BUFFER_LINES': ['#omitted'],
    '#remarks REMARKS_MAX': ['#omitted'],
    'addresses HEARTBEAT_ADDRESSES_MAX': ['ipAddressCount'],
    'all LISTED_MAX': ['sayOmitted'],
    'boots BOOTS_MAX': ['sayOmitted'],
    'checkpoints CHECKPOINTS_MAX': ['isCut'],
    'concat LINE_BYTES_MAX + 4': ['more characters'],
    'continued LINES_PER_ENTRY': ['[more lines]'],
    'databases DATABASES_MAX': ['databaseCount'],
    'disks MACHINE_DISKS_MAX': ['isCut'],
    'entries SOFTWARE_MAX': ['omission'],
    'failed NAMED_PATHS_MAX': ['count'],
    'found MACHINES_MAX': ['truncated'],
    'found SPAN_ENTRIES_MAX': ['report.missed'],
    'guests VM_BOOTS_MAX': ['isCut'],
    'instances DATABASE_INSTANCES_MAX': ['instanceCount'],
    'interfaces INTERFACES_MAX': ['omission'],
    'ipAddresses INTERFACE_ADDRESSES_MAX': ['addressCount'],
    'leftOut NAMED_PATHS_MAX': ['count'],
    'listed SERVICES_MAX': ['total'],
    'logs LISTED_MAX': ['sayOmitted'],
    'names DATABASE_INSTANCES_MAX': ['instanceCount'],
    'part READ_MAX - bytes': ['isCut'],
    'paths LISTED': ['more'],
    'paths NAMED_IN_MESSAGE': ['count'],
    'paths NAMED_PATHS_MAX': ['count'],
    'planned NAMED_PATHS_MAX': ['written'],
    'problems PROBLEMS_MAX': ['isCut'],
    'providers VSS_PROVIDERS_MAX': ['providerCount'],
    'rest LINE_BYTES_MAX + 4': ['more characters'],
    'signal MACHINES_MAX + 1': ['truncated'],
    'sort SERVICES_MAX': ['total'],
    'toSorted DISK_CHECKS_MAX': ['checkCount'],
    'units UNITS_MAX': ['sayOmitted'],
    'unreadable NAMED_PATHS_MAX': ['count'],
    'waiting LINES_PER_ENTRY - 1': ['[more lines]'],
    'warnings WARNINGS_MAX': ['not listed'],
    'warnings WARNINGS_MAX - 1': ['not listed'],
    'writers VSS_WRITERS_MAX': ['writerCount'],
  },
  engine: {
    '#kept KEPT': ['count'],
    'errors ERRORS_MAX': ['isCut'],
  },
  features: {
    '#lines LISTED_MAX': ['more'],
    '#listed FAULTS_MAX': ['#more'],
    'actionsPerUser TOP_USERS': ['totalUsers'],
    'broken BROKEN_MAX': ['brokenTotal'],
    'data MATCHES_MAX': ['isComplete'],
    'devices NAMED_IN_ALERT': ['deviceCount'],
    'devices NAMED_MAX': ['device_count'],
    'devices RUN_DEVICES_MAX': ['too_many_devices'],
    'entries RECENT_SHOWN': ['totalEvents'],
    'errors ERRORS_MAX': ['errorsAreCut'],
    'failed ERRORS_MAX': ['errorsAreCut'],
    'faults FAULTS_MAX': ['faultCount', 'refusedCount'],
    'found CALENDAR_MAX': ['complete'],
    'fulls CHAINS_MAX': ['chainCount'],
    'id EVENT_ID_MAX': ['truncated'],
    'machines MACHINES_MAX': ['machines: { checked'],
    'names LISTED': ['more'],
    'own AUDITED_DEVICES_MAX': ['devices: own.length'],
    'paths PATHS_MAX + 1': ['pathsAreCut'],
    'ranges RANGES_MAX': ['more'],
    'rows VERSIONS_MAX': ['isCut'],
    'some NAMED_DEVICES': ['devices: some.length'],
    'samples DEVICES_MAX': ['isComplete'],
    'sources NAMED_MAX': ['more'],
    'toSorted SHOWN_MAX': ['count'],
    'told SIMULATED_MAX': ['isCut'],
    'uses 3': ['more'],
    'value SHOWN_MAX': ['valueCount'],
    'versions LISTED_MAX': ['more'],
    'windows CALENDAR_WINDOWS': ['complete'],
    'written PATHS_MAX': ['pathsAreCut'],
    'value COLUMN_TEXT_MAX': ['…'],
  },
};

/** What keeps a cut from being taken for the whole. */
const REASONS = {
  next: 'The rest comes next: it is a page of a loop, a frame of a stream, or a part of what one round does.',
  cache: 'What is left out is read again when it is needed.',
  format: 'A part of a format: a prefix, a hash, the head of a file, a number of letters of a key.',
  refused: 'More than this is refused with an error, or not taken at all, and nothing of it is kept.',
  failure:
    'The end or beginning of what a program printed, inside the text of an error. The error stands for itself.',
  sentence: 'A sentence for people in a field of that length. What matters stands at its beginning.',
  estimate: 'It only guesses or chooses, and what it decides is right for a part as well.',
  newest: 'Only the newest are kept, which the documentation of the list says.',
  fault: 'The error is given again for what is left out, once the faults that are listed are mended.',
} as const;

/** Cuts about which results say nothing, with the reason. `known` are those that should be said. */
const UNSAID: Listed<keyof typeof REASONS> = {
  agent: {
    '#line LINE_MAX': ['next'],
    '#named NAMED_MAX': ['cache'],
    '1 400': ['failure'],
    'bytes SEAM': ['format'],
    'code 64': ['format'],
    'component 50': ['refused'],
    'entries FILES_MAX': ['estimate', 'refused'],
    'errors STDERR_MAX': ['failure'],
    'filter RELEASE_KEYS_MAX': ['newest'],
    'first IDENTITY_LINE_MAX': ['format'],
    'folders FOLDERS_MAX': ['estimate'],
    'free EXTENTS_MAX': ['estimate'],
    'line 300': ['format'],
    'logs LOGS_TRIED': ['estimate'],
    'message LEVEL_WITHIN': ['estimate'],
    'output OUTPUT_MAX': ['refused'],
    'kept SAMPLES_PER_MESSAGE': ['next'],
    'pem PEM_MAX_LENGTH': ['refused'],
    'printed LOG_SHOWN': ['failure'],
    'replace 70': ['format'],
    'rows ROWS_PER_FRAME': ['cache'],
    'run RUN_MIN': ['estimate'],
    'sort PROCESSES_NAMED': ['estimate'],
    'started ERRORS_MAX': ['failure'],
    'stderr STDERR_MAX': ['failure'],
    'text STDERR_MAX - stderr.length': ['failure'],
    'text STDERR_MAX': ['failure'],
    'version 50': ['refused'],
    'version KEEP': ['newest'],
  },
  engine: {
    '#counted COUNTED': ['newest'],
    '#kept KEPT_LINES': ['failure'],
    'entries CACHED_ENTRIES': ['cache'],
    'line LINE_MAX': ['failure'],
    'name NAME_BYTES': ['format'],
    'object IV_LENGTH': ['format'],
    'output 1000': ['format'],
    'pages PAGES_MAX': ['cache'],
    'path NAME_BYTES': ['format'],
    'path PATH_TEXT_MAX': ['format'],
    'reason 200': ['sentence'],
    'reason 99': ['sentence'],
    'replace MAX_LENGTH': ['sentence'],
    'text KEPT_LENGTH': ['failure'],
  },
  features: {
    'recordings KEYS_MAX': ['cache'],
    '#cache CACHE_SIZE': ['cache'],
    '#until MOST': ['cache'],
    'batch AT_ONCE': ['next'],
    'batch BATCH_SIZE': ['next'],
    'bytes LOGO_MAX_BYTES': ['refused'],
    'bytes NAME_BYTES_MAX': ['refused'],
    'certificates MAX_CERTIFICATES': ['refused'],
    'characters NAME_MAX - ending.length': ['format'],
    'chains MAX_SCANNED_CHAINS': ['estimate'],
    'changes CHANGES_MAX': ['newest'],
    'code 100': ['format'],
    'code 64': ['format'],
    'code CODE_MAX': ['format'],
    'concat OVERLAP_BYTES': ['next'],
    'digest HASH_LENGTH': ['format'],
    'domains AT_ONCE': ['next'],
    'entry FILE_MAX': ['estimate'],
    'error 100': ['format'],
    'error FAULT_MAX': ['failure'],
    'publicKey PUBLIC_KEY_MAX': ['refused'],
    'filter FAULTS_MAX': ['fault'],
    'filter MAX_CERTIFICATES': ['refused'],
    'from 50': ['format'],
    'ids PAGE': ['next'],
    'ids REPOSITORIES_AT_ONCE': ['next'],
    'key PREFIX_LENGTH': ['format'],
    'locks LOCKS_AT_ONCE': ['next'],
    'page AT_ONCE': ['next'],
    'piece HEAD_BYTES - this.#head.length': ['format'],
    'piece OVERLAP_BYTES': ['next'],
    'random RANDOM_FILES': ['estimate'],
    'reached VM_FORWARDS_MAX': ['refused'],
    'recent PER_HOUR': ['estimate'],
    'replace 90': ['format'],
    'replaceAll BASE_LENGTH': ['format'],
    'replaceAll KIND_LENGTH': ['format'],
    'rows AT_ONCE': ['next'],
    'rows PAGE': ['next'],
    'rows PARTS_AT_ONCE': ['next'],
    'rows RELEASE_KEYS_MAX': ['newest'],
    'same POINTS_MIN': ['estimate'],
    'sealed IV_BYTES': ['format'],
    'sealed TAG_BYTES': ['format'],
    'series COMPACT_SERIES_MAX': ['refused'],
    'series SERIES_MAX': ['refused'],
    'sort CHANGES_MAX': ['next'],
    'start STARTS_AT_ONCE': ['next'],
    'text URL_MAX': ['refused'],
    'toSorted SERIES_MAX': ['refused'],
    'volumes VOLUMES_MAX': ['cache'],
    'waiting UPLOAD_BYTES': ['next'],
    'wanted 190': ['format'],
  },
  protocol: {
    'sort MACS_MAX': ['estimate'],
  },
};

const ROOT = fileURLToPath(new URL('../../src', import.meta.url));
const filesOf = (folder: string) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => path.posix.join(folder, ...file.split(path.sep)));
const files = ['agent', 'engine', 'protocol', 'features'].flatMap(filesOf).sort();
const watchdog = filesOf('watchdog');
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');
const partOf = (file: string) => file.split('/')[0] ?? '';
const isIn = (list: Listed<string>, file: string, cut: string) => list[partOf(file)]?.[cut] !== undefined;
const entriesOf = (list: Listed<string>) =>
  Object.entries(list).flatMap(([part, cuts]) => Object.keys(cuts).map((cut) => `${part}: ${cut}`));

describe('a limit that cuts', () => {
  const found = files.flatMap((file) => cutsOf(file, read(file)).map((cut) => ({ file, cut })));

  it('is listed with what says that it has cut, or with the reason why nothing does', () => {
    const isListed = ({ file, cut }: { file: string; cut: string }) =>
      isIn(SAID, file, cut) || isIn(UNSAID, file, cut);
    expect(
      found.filter((each) => !isListed(each)),
      'cuts that are not listed: let the result say it, and list the field in SAID',
    ).to.deep.equal([]);
    const present = new Set(found.map(({ file, cut }) => `${partOf(file)}: ${cut}`));
    expect(
      [...entriesOf(SAID), ...entriesOf(UNSAID)].filter((cut) => !present.has(cut)),
      'listed, and not in the source',
    ).to.deep.equal([]);
  });

  it('has a word by which its result says it, if nothing explains why it has none', () => {
    const silent = found.filter(({ file, cut }) => {
      if (isIn(UNSAID, file, cut)) return false;
      const folder = path.posix.dirname(file);
      const near = [folder, path.posix.dirname(folder)];
      const texts = files.filter((other) => near.includes(path.posix.dirname(other))).map(read);
      return !SAID[partOf(file)]?.[cut]?.some((word) => texts.some((text) => text.includes(word)));
    });
    expect(silent).to.deep.equal([]);
  });
});

const CUT_BY_SENDER = 'cut by the sender';

/**
 * Lists in what agents and servers send each other. One that is too long has its whole message refused, so the sender
 * keeps within the limit: the file behind an arrow cuts or pages by the same limit; the others cannot be longer.
 */
const LISTS: Readonly<Record<string, readonly string[]>> = {
  'Warnings 50': [CUT_BY_SENDER],
  'boots VM_BOOTS_MAX': [CUT_BY_SENDER],
  'capabilities 100': ['one for each part of the program'],
  'checkpoints CHECKPOINTS_MAX': [CUT_BY_SENDER],
  'checks 20': ['the same for every destination'],
  'checks DISK_CHECKS_MAX': [CUT_BY_SENDER],
  'copies VAULT_SYNC_SNAPSHOTS_MAX': ['those that were asked for'],
  'databases 1000': ['refused at the request, and as many as `DatabaseDetails` has'],
  'databases DATABASES_MAX': [CUT_BY_SENDER],
  'deviceIds QUERY_MAX_DEVICES': ['refused at the request'],
  'disks 64': ['those of the image, which has 16 at most'],
  'disks IMAGE_DISKS_MAX': [
    'refused by the agent before it reads one, and at the request',
    'those of the image',
  ],
  'disks MACHINE_DISKS_MAX': [CUT_BY_SENDER],
  'emptySources 200': ['some of the 200 paths of the order'],
  'events EVENT_BATCH_MAX': ['batches of 100 (agent/capabilities/log-shipping/spool.ts)'],
  'excludeDisks 64': ['refused at the request'],
  'excludes 200': ['refused at the request'],
  'failed DatabaseEngine.options.length': ['one for each engine'],
  'failed FAILED_MAX': ['one for each source'],
  'files 100': ['those that were asked for'],
  'forwards VM_FORWARDS_MAX': [CUT_BY_SENDER],
  'instances DATABASE_INSTANCES_MAX': [CUT_BY_SENDER],
  'interfaces INTERFACES_MAX': [CUT_BY_SENDER],
  'ipAddresses HEARTBEAT_ADDRESSES_MAX': [CUT_BY_SENDER],
  'ipAddresses INTERFACE_ADDRESSES_MAX': [CUT_BY_SENDER],
  'level 5': ['one for each level'],
  'logs LOG_BATCH_MAX': ['batches of 100 (agent/capabilities/log-shipping/spool.ts)'],
  'machines MACHINES_MAX': [CUT_BY_SENDER],
  'machines MACHINES_PER_SNAPSHOT': ['refused at the request'],
  'parts CHAIN_PARTS_MAX': [CUT_BY_SENDER],
  'paths 100': ['a sample of ten files'],
  'paths 200': ['refused at the request'],
  'paths NAMED_PATHS_MAX': [CUT_BY_SENDER],
  'planned NAMED_PATHS_MAX': [CUT_BY_SENDER],
  'problems 20': ['the same for every server'],
  'problems 50': [CUT_BY_SENDER],
  'providers VSS_PROVIDERS_MAX': [CUT_BY_SENDER],
  'releaseKeys RELEASE_KEYS_MAX': [CUT_BY_SENDER],
  'rows ROWS_PER_FRAME': [CUT_BY_SENDER],
  'removed SERVICES_MAX': [CUT_BY_SENDER],
  'samples SAMPLES_PER_MESSAGE': [CUT_BY_SENDER],
  'selectedPaths 1000': ['refused at the request'],
  'services SERVICES_MAX': [CUT_BY_SENDER],
  'sets SQL_HISTORY_MAX': [CUT_BY_SENDER],
  'snapshotIds VAULT_SYNC_SNAPSHOTS_MAX': [CUT_BY_SENDER],
  'software SOFTWARE_MAX': [CUT_BY_SENDER],
  'updates 20': [CUT_BY_SENDER],
  'warnings 50': ['the same for every machine'],
  'writers VSS_WRITERS_MAX': [CUT_BY_SENDER],
};

describe('a list that refuses its message if it is too long', () => {
  const found = files.flatMap((file) => (partOf(file) === 'protocol' ? listBoundsOf(file, read(file)) : []));

  it('is listed with what keeps the sender within it', () => {
    expect([...new Set(found)].toSorted()).to.deep.equal(Object.keys(LISTS).toSorted());
  });

  it('has its limit if the sender cuts or pages by it', () => {
    const senders = [...files.filter((file) => partOf(file) !== 'protocol'), ...watchdog].map(read);
    const missing = Object.entries(LISTS).flatMap(([bound, by]) => {
      if (!by.includes(CUT_BY_SENDER)) return [];
      const limit = bound.split(' ')[1] ?? '';
      return senders.some((text) => new RegExp(`\\b${limit}\\b`).test(text)) ? [] : [bound];
    });
    expect(missing).to.deep.equal([]);
  });
});

describe('the search for cuts', () => {
  const cuts = (text: string) => cutsOf('a.ts', text);

  it('finds what cuts a list, a line or an output', () => {
    expect(cuts('const a = names.slice(0, NAMES_MAX);')).to.deep.equal(['names NAMES_MAX']);
    expect(cuts('const a = text.slice(-TEXT_MAX);')).to.deep.equal(['text TEXT_MAX']);
    expect(cuts('const a = list.map((x) => x.y).slice(0, 64);')).to.deep.equal(['map 64']);
    expect(cuts('const a = { disks: raw.disks.slice(0, 64) };')).to.deep.equal(['disks 64']);
    expect(cuts('const a = text.slice(0, 300);')).to.deep.equal(['text 300']);
    expect(cuts('if (this.#lines.length < LINES_MAX) this.#lines.push(line);')).to.deep.equal([
      '#lines LINES_MAX',
    ]);
    expect(cuts('for (;;) { if (found.length === FOUND_MAX) break; }')).to.deep.equal(['found FOUND_MAX']);
    expect(cuts('if (output.length < OUTPUT_MAX) output += text;')).to.deep.equal(['output OUTPUT_MAX']);
  });

  it('takes a refusal, a position and the fitting of a name for no cut', () => {
    expect(cuts('if (names.length > NAMES_MAX) throw new Error();')).to.deep.equal([]);
    expect(cuts('const a = names.slice(0, -1), b = names.slice(0, 2);')).to.deep.equal([]);
    expect(cuts('const a = hash.slice(0, 32);')).to.deep.equal([]);
    expect(cuts('const a = shortened(text, 300);')).to.deep.equal([]);
    expect(cuts('if (cache.size > CACHE_MAX) cache.clear();')).to.deep.equal([]);
  });

  it('finds bounded lists of schemas', () => {
    const text =
      'const A = z.object({ a: z.array(z.string().max(5)).min(1).max(A_MAX), b: atMost(7, B), c: z.array(C) });';
    expect(listBoundsOf('a.ts', text)).to.deep.equal(['a A_MAX', 'b 7']);
  });
});
