import type { MonthReport } from '../../api/routes.ts';
import {
  formatBytes,
  formatCount,
  formatCounted,
  formatDuration,
  formatWord,
  SYSTEM_NAMES,
} from '../../ui/index.ts';
import { alertKindText } from '../alert-words/index.ts';
import { Figures, Remark, Section, SmallTable, Tables } from './report-parts.tsx';
import { secondsText, shareText, timeIn } from './report-text.ts';

type Part<Name extends keyof MonthReport> = NonNullable<MonthReport[Name]>;

const PART_TITLES: Readonly<Record<MonthReport['hidden'][number], string>> = {
  devices: 'Devices',
  availability: 'Availability',
  alerts: 'Alerts',
  backups: 'Backups',
  cloudBackups: 'Backups of Microsoft 365',
  software: 'Software',
  upgrades: 'Upgrades of agents',
  commands: 'Scripts and commands',
  people: 'Who changed what',
};

/** The sections of a report, in their order. */
export function Sections({ report }: { report: MonthReport }) {
  const { devices, availability, alerts, backups, cloudBackups, software, upgrades, commands, people } =
    report;
  return (
    <>
      <Devices devices={devices} />
      <Availability availability={availability} timezone={report.timezone} />
      {alerts !== null && <Alerts alerts={alerts} />}
      {backups !== null && <Backups backups={backups} />}
      {cloudBackups !== null && <CloudBackups cloudBackups={cloudBackups} />}
      <Software software={software} />
      <Upgrades upgrades={upgrades} />
      <Commands commands={commands} />
      {people !== null && <People people={people} />}
      <Notes report={report} />
    </>
  );
}

/** What the report does not say, and why. */
function Notes({ report: { hidden, incomplete, timezone } }: { report: MonthReport }) {
  return (
    <Section title="About these figures">
      <Remark>
        The month begins and ends at midnight by the time zone {timezone}. The report is about the devices
        that belong to the organization now. Maintenance that was planned by maintenance windows is no part of
        their availability.
      </Remark>
      {hidden.length > 0 && (
        <Remark>
          Not shown, because the role of the reader does not allow it:{' '}
          {hidden.map((part) => PART_TITLES[part]).join(', ')}.
        </Remark>
      )}
      {incomplete.map(({ part, before }) => (
        <Remark key={part}>
          {PART_TITLES[part]}: what is from before {timeIn(before, timezone)} is no longer kept and may be
          missing.
        </Remark>
      ))}
    </Section>
  );
}

function Devices({ devices: { total, added, removed, bySystem } }: { devices: Part<'devices'> }) {
  return (
    <Section title={PART_TITLES.devices}>
      <Figures
        figures={[
          ['In service at the end', formatCount(total)],
          ['New', formatCount(added)],
          ['Taken out of service', formatCount(removed)],
          ...bySystem.map(({ osType, count }) => [SYSTEM_NAMES[osType], formatCount(count)] as const),
        ]}
      />
    </Section>
  );
}

function Availability({ availability, timezone }: { availability: Part<'availability'>; timezone: string }) {
  const { connectedShare, knownShare, devices, unknownDevices, disconnections, leastAvailable } =
    availability;
  const { plannedMaintenance: planned, plannedMaintenanceSince } = availability;
  return (
    <Section title={PART_TITLES.availability}>
      <Figures
        figures={[
          ['Time connected', shareText(connectedShare)],
          ['Connections lost', formatCount(disconnections)],
          ['Planned maintenance', planned.minutes === 0 ? 'None' : minutesText(planned.minutes)],
        ]}
      />
      {planned.minutes > 0 && (
        <Remark>
          Planned maintenance is counted apart: {formatCounted(planned.devices, 'device')} had{' '}
          {minutesText(planned.deviceMinutes)} of it together
          {planned.disconnectedMinutes > 0 &&
            `, and for ${minutesText(planned.disconnectedMinutes)} of that time no connection`}
          .
        </Remark>
      )}
      {plannedMaintenanceSince !== null && (
        <Remark>
          Planned maintenance before {timeIn(plannedMaintenanceSince, timezone)} was not recorded, and counts
          as any other time.
        </Remark>
      )}
      {knownShare !== null && knownShare < 1 && (
        <Remark>
          Whether devices were connected is known for {shareText(knownShare)} of the time
          {unknownDevices > 0 &&
            `, and not at all for ${formatCount(unknownDevices)} of ${formatCounted(devices, 'device')}`}
          . The rest is not counted.
        </Remark>
      )}
      <SmallTable
        title="Least available devices"
        rows={leastAvailable}
        keyOf={({ id }) => id}
        columns={[
          { header: 'Device', isName: true, cell: ({ name }) => name },
          { header: 'Time connected', align: 'right', cell: (device) => shareText(device.connectedShare) },
          {
            header: 'Not connected',
            align: 'right',
            cell: ({ disconnectedMinutes }) => minutesText(disconnectedMinutes),
          },
          {
            header: 'Planned maintenance',
            align: 'right',
            cell: ({ plannedMaintenanceMinutes }) =>
              plannedMaintenanceMinutes === 0 ? '–' : minutesText(plannedMaintenanceMinutes),
          },
          {
            header: 'Connections lost',
            align: 'right',
            cell: (device) => formatCount(device.disconnections),
          },
        ]}
      />
    </Section>
  );
}

const minutesText = (minutes: number): string => formatDuration(minutes * 60_000);

function Alerts({ alerts }: { alerts: Part<'alerts'> }) {
  return (
    <Section title={PART_TITLES.alerts}>
      <Figures
        figures={[
          ['Opened', formatCount(alerts.opened)],
          ['Resolved', formatCount(alerts.resolved)],
          ['Open at the end', formatCount(alerts.standing)],
          ['Median time to acknowledge', secondsText(alerts.medianAcknowledgeSeconds)],
          ['Median time to resolve', secondsText(alerts.medianResolveSeconds)],
        ]}
      />
      <Tables>
        <SmallTable
          title="Alerts by severity"
          rows={alerts.bySeverity}
          keyOf={({ severity }) => severity}
          columns={[
            { header: 'Severity', isName: true, cell: ({ severity }) => formatWord(severity) },
            { header: 'Opened', align: 'right', cell: ({ opened }) => formatCount(opened) },
          ]}
        />
        <SmallTable
          title="Alerts by kind"
          rows={alerts.byKind}
          total={alerts.kindCount}
          keyOf={({ kind }) => kind}
          columns={[
            { header: 'Kind', isName: true, cell: ({ kind }) => alertKindText(kind) },
            { header: 'Opened', align: 'right', cell: ({ opened }) => formatCount(opened) },
          ]}
        />
        <SmallTable
          title="Devices with most alerts"
          rows={alerts.devices}
          total={alerts.deviceCount}
          keyOf={({ id }) => id}
          columns={[
            { header: 'Device', isName: true, cell: ({ name }) => name },
            { header: 'Opened', align: 'right', cell: ({ opened }) => formatCount(opened) },
          ]}
        />
      </Tables>
    </Section>
  );
}

const bytesText = (bytes: number | null) => (bytes === null ? 'Not known' : formatBytes(bytes));

function Backups({ backups }: { backups: Part<'backups'> }) {
  const { jobs, devices, protectedDevices, restores, storedBytes, storedBytesBefore } = backups;
  return (
    <Section title={PART_TITLES.backups}>
      <Figures
        figures={[
          ['Completed', formatCount(jobs.completed)],
          ['Completed in part', formatCount(jobs.partial)],
          ['Failed', formatCount(jobs.failed)],
          jobs.cancelled > 0 && ['Cancelled', formatCount(jobs.cancelled)],
          jobs.open > 0 && ['Not ended', formatCount(jobs.open)],
          ['Devices with a backup', formatCount(devices)],
          ['Of these verified', formatCount(protectedDevices)],
          ['Restores completed', formatCount(restores.completed + restores.partial)],
          restores.failed > 0 && ['Restores failed', formatCount(restores.failed)],
          ['Stored at the end', bytesText(storedBytes)],
          ['Stored at the beginning', bytesText(storedBytesBefore)],
        ]}
      />
    </Section>
  );
}

/** Says nothing about an organization that backs up no cloud service. */
function CloudBackups({ cloudBackups }: { cloudBackups: Part<'cloudBackups'> }) {
  const { configurations, backedUp, runs, restores, itemsNew, itemsFailed } = cloudBackups;
  if (configurations === 0 && runs.completed + runs.partial + runs.failed + runs.open === 0) return null;
  return (
    <Section title={PART_TITLES.cloudBackups}>
      <Figures
        figures={[
          ['Completed', formatCount(runs.completed)],
          ['Completed in part', formatCount(runs.partial)],
          ['Failed', formatCount(runs.failed)],
          runs.cancelled > 0 && ['Cancelled', formatCount(runs.cancelled)],
          runs.open > 0 && ['Not ended', formatCount(runs.open)],
          ['Configurations', formatCount(configurations)],
          ['Of these backed up', formatCount(backedUp)],
          ['Items stored', formatCount(itemsNew)],
          itemsFailed > 0 && ['Items that could not be stored', formatCount(itemsFailed)],
          ['Restores completed', formatCount(restores.completed + restores.partial)],
          restores.failed > 0 && ['Restores failed', formatCount(restores.failed)],
        ]}
      />
    </Section>
  );
}

function Software({ software }: { software: Part<'software'> }) {
  const { installed, updated, removed, devices, titles, titleCount, cutDevices } = software;
  return (
    <Section title={PART_TITLES.software}>
      <Figures
        figures={[
          ['Installed', formatCount(installed)],
          ['Updated', formatCount(updated)],
          ['Removed', formatCount(removed)],
          ['Devices with changes', formatCount(devices)],
        ]}
      />
      {cutDevices > 0 && (
        <Remark>
          Of {formatCounted(cutDevices, 'device')}, only the newest changes are kept: the earlier ones of the
          month are not counted.
        </Remark>
      )}
      <SmallTable
        title="Most frequent titles"
        rows={titles}
        total={titleCount}
        keyOf={({ name }) => name}
        columns={[
          { header: 'Title', isName: true, cell: ({ name }) => name },
          { header: 'Installed', align: 'right', cell: (title) => formatCount(title.installed) },
          { header: 'Updated', align: 'right', cell: (title) => formatCount(title.updated) },
          { header: 'Removed', align: 'right', cell: (title) => formatCount(title.removed) },
        ]}
      />
    </Section>
  );
}

function Upgrades({ upgrades }: { upgrades: Part<'upgrades'> }) {
  const { completed, failed, rolledBack, open, devices, versions, versionCount } = upgrades;
  return (
    <Section title={PART_TITLES.upgrades}>
      <Figures
        figures={[
          ['Completed', formatCount(completed)],
          ['Failed', formatCount(failed)],
          ['Rolled back', formatCount(rolledBack)],
          open > 0 && ['Not ended', formatCount(open)],
          ['Devices upgraded', formatCount(devices)],
        ]}
      />
      <SmallTable
        title="Installed versions"
        rows={versions}
        total={versionCount}
        keyOf={({ component, version }) => `${component} ${version}`}
        columns={[
          {
            header: 'Version',
            isName: true,
            cell: ({ component, version }) => `${formatWord(component)} ${version}`,
          },
          { header: 'Upgrades', align: 'right', cell: (version) => formatCount(version.completed) },
        ]}
      />
    </Section>
  );
}

function Commands({ commands: part }: { commands: Part<'commands'> }) {
  const { scripts, commands, devices, topScripts, scriptCount, topCommands, commandCount } = part;
  return (
    <Section title={PART_TITLES.commands}>
      <Figures
        figures={[
          ['Runs of scripts', formatCount(scripts.runs)],
          ['Succeeded', formatCount(scripts.succeeded)],
          ['Other commands', formatCount(commands.runs)],
          ['Of these succeeded', formatCount(commands.succeeded)],
          ['Devices', formatCount(devices)],
        ]}
      />
      <Tables>
        <SmallTable
          title="Most frequent scripts"
          rows={topScripts.map((script, index) => ({ ...script, key: `${index}` }))}
          total={scriptCount}
          keyOf={({ key }) => key}
          columns={[
            { header: 'Script', isName: true, cell: ({ name }) => name ?? 'A deleted script' },
            { header: 'Runs', align: 'right', cell: ({ runs }) => formatCount(runs) },
            { header: 'Succeeded', align: 'right', cell: ({ succeeded }) => formatCount(succeeded) },
          ]}
        />
        <SmallTable
          title="Most frequent commands"
          rows={topCommands}
          total={commandCount}
          keyOf={({ type }) => type}
          columns={[
            { header: 'Command', isName: true, cell: ({ type }) => formatWord(type) },
            { header: 'Runs', align: 'right', cell: ({ runs }) => formatCount(runs) },
            { header: 'Succeeded', align: 'right', cell: ({ succeeded }) => formatCount(succeeded) },
          ]}
        />
      </Tables>
    </Section>
  );
}

function People({ people: { changes, people, peopleCount, isCut } }: { people: Part<'people'> }) {
  return (
    <Section title={PART_TITLES.people}>
      <Figures
        figures={[
          ['Changes', formatCount(changes)],
          ['People and API keys', formatCount(peopleCount)],
        ]}
      />
      {isCut && (
        <Remark>
          There are more entries in the audit trail than are counted here: these are the newest.
        </Remark>
      )}
      <SmallTable
        title="Most changes"
        rows={people.map((person, index) => ({ ...person, key: `${index}` }))}
        total={peopleCount}
        keyOf={({ key }) => key}
        columns={[
          {
            header: 'Person',
            isName: true,
            cell: ({ name, isApiKey }) => (isApiKey ? `${name} (API key)` : name),
          },
          { header: 'Changes', align: 'right', cell: (person) => formatCount(person.changes) },
          {
            header: 'Most often',
            cell: ({ actions }) =>
              actions
                .map(({ action, changes: times }) => `${formatWord(action)} (${formatCount(times)})`)
                .join(', '),
          },
        ]}
      />
    </Section>
  );
}
