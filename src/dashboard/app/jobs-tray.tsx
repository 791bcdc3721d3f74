import { ActionIcon, Group, Indicator, Popover, Progress, ScrollArea, Stack, Text } from '@mantine/core';
import { IconProgress } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { type LinkProps } from '@tanstack/react-router';
import type { JobUpdate } from '../../protocol/index.ts';
import { apiQuery } from '../api/index.ts';
import { isFinal, useLiveJobs } from '../live/index.ts';
import { useScope } from '../routing.ts';
import { Empty, JobStateBadge, When, formatWord, TextLink } from '../ui/index.ts';

const SHOWN = 50;

/** The work that is going on, on whatever page it was started. It goes on when the tab is closed. */
export function JobsTray() {
  const { orgId } = useScope();
  const jobs = useLiveJobs(orgId === undefined ? {} : { orgId });
  const open = jobs.filter((job) => !isFinal(job)).length;
  return (
    <Popover width={380} position="bottom-end" shadow="md" trapFocus>
      {/* The button itself is the target, because it is what says whether the list is open. */}
      <Indicator label={open > 99 ? '99+' : open} size={16} offset={4} disabled={open === 0} color="blue">
        <Popover.Target>
          <ActionIcon variant="subtle" color="gray" aria-label={`Jobs: ${open} running or waiting`}>
            <IconProgress size={18} />
          </ActionIcon>
        </Popover.Target>
      </Indicator>
      <Popover.Dropdown p="xs">
        {jobs.length === 0 ? (
          <Empty title="Nothing is running">
            Commands, scripts, backups and restores appear here, and go on when you close this tab.
          </Empty>
        ) : (
          <ScrollArea.Autosize mah={420}>
            <Stack gap="xs">
              {jobs.slice(0, SHOWN).map((job) => (
                <Job key={job.id} job={job} />
              ))}
            </Stack>
          </ScrollArea.Autosize>
        )}
      </Popover.Dropdown>
    </Popover>
  );
}

function Job({ job }: { job: JobUpdate }) {
  const { name, page } = jobKind(job.kind);
  return (
    <Stack gap={2}>
      <Group justify="space-between" wrap="nowrap">
        {page === undefined ? (
          <Text size="sm" fw={500}>
            {name}
          </Text>
        ) : (
          <TextLink size="sm" fw={500} {...page(job.id)}>
            {name}
          </TextLink>
        )}
        <JobStateBadge {...job} />
      </Group>
      {!isFinal(job) && (
        <Progress
          size="sm"
          // If the end is not known, a moving bar says that work goes on.
          value={job.percent ?? 100}
          animated={job.percent === undefined || job.percent === null}
          aria-label={job.phase}
        />
      )}
      <Group justify="space-between" gap="xs">
        {job.deviceId === undefined ? <span /> : <DeviceName id={job.deviceId} />}
        <Text size="xs" c="dimmed">
          <When at={job.at} />
        </Text>
      </Group>
    </Stack>
  );
}

function DeviceName({ id }: { id: string }) {
  const { data } = useQuery({ ...apiQuery('GET /devices/{id}', { params: { id } }), staleTime: 300_000 });
  return (
    <TextLink size="xs" to="/devices/$deviceId" params={{ deviceId: id }}>
      {data === undefined ? 'Device' : (data.displayName ?? data.hostname)}
    </TextLink>
  );
}

/** The name of a kind of long work, and the page that shows it. Commands and unknown kinds have neither. */
interface JobKind {
  name: string;
  page?: (id: string) => Pick<LinkProps, 'to' | 'search' | 'params'>;
}

const KINDS: Readonly<Record<string, JobKind>> = {
  backup: { name: 'Backup', page: (job) => ({ to: '/backup/jobs', search: { job } }) },
  restore: { name: 'Restore', page: (restore) => ({ to: '/backup/restores', search: { restore } }) },
  vm_restore: {
    name: 'Machine of a snapshot',
    page: (machine) => ({ to: '/backup/restores', search: { view: 'machines', machine } }),
  },
  recovery: {
    name: 'Bare-metal recovery',
    page: (recovery) => ({ to: '/backup/bare-metal', search: { recovery } }),
  },
  verification: {
    name: 'Verification',
    page: (verification) => ({ to: '/backup/verifications', search: { verification } }),
  },
  cloud_backup: { name: 'Cloud backup', page: (job) => ({ to: '/cloud-backup/jobs', search: { job } }) },
  dr: {
    name: 'Recovery plan',
    page: (executionId) => ({ to: '/recovery/executions/$executionId', params: { executionId } }),
  },
  vault_sync: { name: 'Copy to a vault' },
};

const jobKind = (kind: string): JobKind => KINDS[kind] ?? { name: formatWord(kind) };
