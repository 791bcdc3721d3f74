/** A value that a script finds in its environment. A secret one is not kept in the clear. */
export interface Variable {
  name: string;
  value: string;
  isSecret: boolean;
}

export const NAME_MAX = 64;
const NAME = /^[A-Za-z_]\w*$/;
export const isName = (name: string): boolean => NAME.test(name) && name.length <= NAME_MAX;

/** The variables as the API takes them. */
export interface Given {
  parameters?: Record<string, string>;
  secrets?: Record<string, string>;
}

export const givenBy = (variables: readonly Variable[]): Given => ({
  ...named('parameters', variables, false),
  ...named('secrets', variables, true),
});

function named(field: keyof Given, variables: readonly Variable[], isSecret: boolean): Given {
  const some = variables.filter((each) => each.isSecret === isSecret);
  return some.length === 0
    ? {}
    : { [field]: Object.fromEntries(some.map(({ name, value }) => [name, value])) };
}
