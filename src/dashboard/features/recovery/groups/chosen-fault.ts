/** Of a field in which nothing was chosen, the rule for ids says little. */
export const chosenFault = (id: string, fault: string | undefined): string | undefined =>
  fault === undefined || id !== '' ? fault : 'Choose one.';
