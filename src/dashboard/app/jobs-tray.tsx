import {
  ActionIcon,
  Anchor,
  Group,
  Indicator,
  Popover,
  Progress,
  ScrollArea,
  Stack,
  Text,
} from '@mantine/core';
import { IconProgress } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { JobUpdate } from '../../../protocol/index.ts';
import { apiQuery } from '../../api/index.ts';
import { isFinal, useLiveJobs } from '../../live/index.ts';
import { useScope } from '../../routing/index.ts';
import { Empty, JobStateBadge, When } from '../../ui/index.ts';
import { jobKind } from './job-kinds.ts';

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
          <Anchor size="sm" fw={500} renderRoot={(props) => <Link {...props} {...page(job.id)} />}>
            {name}
          </Anchor>
        )}
        <JobStateBadge {...job} />
      </Group>
      {!isFinal(job) && (
        <Progress
          size="sm"
          // Where the end is not known, a moving bar says that work goes on.
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
    <Anchor
      size="xs"
      renderRoot={(props) => <Link {...props} to="/devices/$deviceId" params={{ deviceId: id }} />}
    >
      {data === undefined ? 'Device' : (data.displayName ?? data.hostname)}
    </Anchor>
  );
}
