import { Checkbox, Group, Table } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../api/index.ts';
import { formatWord, Loaded } from '../../ui/index.ts';

const EVERYTHING = '*:*';

/** A choice of permissions: one row for each kind of thing, one box for each action on it. */
export function PermissionChoice({
  label,
  value,
  onChange,
  error,
}: {
  label: string;
  value: readonly string[];
  onChange: (permissions: string[]) => void;
  error?: string | undefined;
}) {
  const catalog = useQuery({
    ...apiQuery('GET /permissions/catalog'),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const hasAll = value.includes(EVERYTHING);
  const toggle = (permission: string) =>
    onChange(
      value.includes(permission) ? value.filter((held) => held !== permission) : [...value, permission],
    );
  return (
    <Checkbox.Group label={label} value={[...value]} error={error}>
      <Checkbox
        label="Everything, also what is added later"
        checked={hasAll}
        onChange={() => onChange(hasAll ? [] : [EVERYTHING])}
        my="xs"
      />
      {!hasAll && (
        <Loaded query={catalog} what="Reading permissions">
          {({ data }) => (
            <Table aria-label={label} verticalSpacing={3}>
              <Table.Tbody>
                {data.map(({ resource, actions }) => {
                  const whole = `${resource}:*`;
                  return (
                    <Table.Tr key={resource}>
                      <Table.Th scope="row" fw={500}>
                        {formatWord(resource)}
                      </Table.Th>
                      <Table.Td>
                        <Group gap="sm">
                          <Checkbox
                            label="All"
                            checked={value.includes(whole)}
                            onChange={() => toggle(whole)}
                            aria-label={`All of ${resource}`}
                          />
                          {actions.map((action) => {
                            const permission = `${resource}:${action}`;
                            return (
                              <Checkbox
                                key={action}
                                label={formatWord(action)}
                                aria-label={`${formatWord(action)} ${resource}`}
                                checked={value.includes(whole) || value.includes(permission)}
                                disabled={value.includes(whole)}
                                onChange={() => toggle(permission)}
                              />
                            );
                          })}
                        </Group>
                      </Table.Td>
                    </Table.Tr>
                  );
                })}
              </Table.Tbody>
            </Table>
          )}
        </Loaded>
      )}
    </Checkbox.Group>
  );
}
