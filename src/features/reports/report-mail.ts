import { DASHBOARD_PAGES } from '../dashboard-pages.ts';
import { cut, escapedHtml, oneLine } from '../notifications/index.ts';
import type { Mail } from '../../platform/mail.ts';
import type { MonthReport } from './report.schema.ts';

/** The mail with the main figures of a report, in plain text and HTML. Pure. */

const SUBJECT_MAX = 200;
const MONTH_NAME = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** @param to  one address */
export function reportMail(to: string, report: MonthReport, baseUrl: string): Mail {
  const { organization, provider, month, isRunning } = report;
  const monthName = MONTH_NAME.format(new Date(`${month}-01T00:00:00Z`));
  const head = cut(oneLine(`${organization.name}: report for ${monthName}`), SUBJECT_MAX);
  // The schedule may have another time zone than the organization.
  const state = isRunning ? ' The month has not ended there: these are the figures so far.' : '';
  const intro = `The monthly report by ${oneLine(provider.name)}, in short.${state}`;
  const lines = figuresOf(report);
  const query = new URLSearchParams({ org: organization.id, month }).toString();
  const link = `${baseUrl}${DASHBOARD_PAGES.reports}?${query}`;
  const foot = 'The whole report is shown after you have signed in.';
  return {
    to,
    subject: head,
    text: [
      head,
      '',
      intro,
      '',
      ...lines.map(([name, value]) => `${name}: ${value}`),
      '',
      link,
      '',
      foot,
      '',
    ].join('\n'),
    html: htmlOf({ head, intro, lines, link, foot }),
  };
}

type Line = readonly [name: string, value: string];

/** Of the parts that the person who has set it up may read. */
function figuresOf({
  devices,
  availability,
  alerts,
  backups,
  cloudBackups,
  software,
  upgrades,
  commands,
}: MonthReport): Line[] {
  const count = (n: number) => n.toLocaleString('en');
  const outcomes = ({ completed, partial, failed }: { completed: number; partial: number; failed: number }) =>
    `${count(completed)} completed, ${count(partial)} in part, ${count(failed)} failed`;
  const { connectedShare: share, plannedMaintenance } = availability;
  return [
    [
      'Devices',
      `${count(devices.total)} in service, ${count(devices.added)} new, ${count(devices.removed)} removed`,
    ],
    // Never rounded up to the whole.
    ['Time connected', share === null ? 'not known' : `${(Math.floor(share * 10_000) / 100).toFixed(2)} %`],
    // Maintenance of seconds would read as none.
    ...(plannedMaintenance.minutes === 0
      ? []
      : [
          [
            'Planned maintenance',
            `${lengthOf(plannedMaintenance.minutes)}, on ${count(plannedMaintenance.devices)} ${plannedMaintenance.devices === 1 ? 'device' : 'devices'}. It is not counted in the time connected.`,
          ] as const,
        ]),
    ...(alerts === null
      ? []
      : [['Alerts', `${count(alerts.opened)} opened, ${count(alerts.resolved)} resolved`] as const]),
    ...(backups === null ? [] : [['Backups', outcomes(backups.jobs)] as const]),
    ...(cloudBackups === null || cloudBackups.configurations === 0
      ? []
      : [['Backups of Microsoft 365', outcomes(cloudBackups.runs)] as const]),
    [
      'Software',
      `${count(software.installed)} installed, ${count(software.updated)} updated, ${count(software.removed)} removed`,
    ],
    ['Upgrades of agents', count(upgrades.completed)],
    ['Scripts and commands', count(commands.scripts.runs + commands.commands.runs)],
  ];
}

/** "2 h 5 min" */
function lengthOf(minutes: number): string {
  const hours = Math.floor(minutes / 60);
  const rest = minutes % 60;
  return [
    ...(hours > 0 ? [`${hours.toLocaleString('en')} h`] : []),
    ...(rest > 0 ? [`${rest} min`] : []),
  ].join(' ');
}

interface Parts {
  head: string;
  intro: string;
  lines: readonly Line[];
  link: string;
  foot: string;
}

const htmlOf = ({ head, intro, lines, link, foot }: Parts): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escapedHtml(head)}</title></head>
<body style="margin:0;padding:24px;font:15px/1.5 system-ui,sans-serif;color:#212529">
<div style="max-width:560px;margin:0 auto">
<h1 style="font-size:18px;margin:0 0 12px">${escapedHtml(head)}</h1>
<p style="margin:0 0 8px">${escapedHtml(intro)}</p>
<table style="border-collapse:collapse">
${lines
  .map(
    ([name, value]) =>
      `<tr><th scope="row" style="text-align:left;font-weight:600;padding:4px 16px 4px 0">${escapedHtml(name)}</th><td style="padding:4px 0">${escapedHtml(value)}</td></tr>`,
  )
  .join('\n')}
</table>
<p style="margin:16px 0"><a href="${escapedHtml(link)}">Open the report</a></p>
<p style="margin:0;font-size:13px;color:#6c757d">${escapedHtml(foot)}</p>
</div></body></html>
`;
